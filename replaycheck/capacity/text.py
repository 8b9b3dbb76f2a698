"""The answer as lines for a terminal. MB and GB are 10^6 and 10^9 bytes; MiB and GiB stand beside the main figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replaycheck.schedule.speculation.method import Rollback
from replaycheck.text import aligned, printable

from .answer import Answer

__all__ = ["lines", "size"]

_METHODS = {
    Rollback.SLOTS: "slots     a state for every position (vLLM)",
    Rollback.COPY: "copy      scratch states, copied back (SGLang)",
    Rollback.RECOVER: "recover   one state and records (RecoverSSM)",
    Rollback.REPLAY: "replay    one state and a ring (ReplaySSM)",
}
_OPEN = (
    "A gain alone doesn't name a budget. Left open by the source: sequences that the pool was sized for, drafts, TP, pool",
    "dtype, whether convolution windows and records count, what else the cache holds (a draft model's layers), block",
    "rounding, and whether capacity means cached tokens (A) or requests of the longest context (B).",
)


def size(count: float) -> str:
    """Bytes in kB, MB or GB, powers of 1000.

    >>> size(434_110_464), size(12_155_092_992), size(9_216), size(0)
    ('434.1 MB', '12.16 GB', '9.2 kB', '0.0 kB')
    """
    if count >= 1e9:
        return f"{count / 1e9:.2f} GB"
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def _both(count: int) -> str:
    if count < 1e6:
        return size(count)
    return f"{size(count)} ({count / 2**30:.2f} GiB)" if count >= 1e9 else f"{size(count)} ({count / 2**20:.1f} MiB)"


def lines(found: Answer) -> Iterator[str]:
    """All of the answer."""
    yield from _head(found)
    yield ""
    yield from _table(("a request and rank", ""), _parts(found))
    yield ""
    yield from _table(("rollback method", "a request", f"{found.sequences} a rank"), _methods(found))
    if found.layout.drafts:
        yield ""
        yield from _waste(found)
    if found.readings:
        yield ""
        yield from _gain(found)


def _head(found: Answer) -> Iterator[str]:
    g, layout = found.geometry, found.layout
    yield (
        f"{printable(g.name)}: {g.layers} KDA layers, {g.heads} heads of [{g.value}, {g.key}], convolution of width "
        f"{g.conv_width}; {g.attention_layers} attention layers of {g.latent} elements a token"
    )
    yield f"from: {printable(g.source)}"
    yield (
        f"pool {layout.pool!s}, {layout.drafts} drafts (windows of {layout.window}), TP {layout.tp} "
        f"({g.heads // layout.tp} heads a rank), DP {found.dp} with {found.sequences} sequences each, EP {found.ep} "
        "(moves no state)"
    )


def _parts(found: Answer) -> list[Sequence[str]]:
    s, layout = found.sizes, found.layout
    history = found.geometry.conv_width - 1
    rows: list[Sequence[str]] = [
        (f"temporal state, {layout.pool!s}", _both(s.temporal)),
        (f"convolution, {history} columns", _both(s.conv)),
    ]
    if layout.drafts:
        rows += [
            (f"convolution window, {history + layout.drafts} columns", _both(s.conv_window)),
            (f"RecoverSSM records, {layout.window} tokens", _both(s.records)),
            (f"ReplaySSM ring, {layout.ring_tokens} tokens", _both(s.ring)),
        ]
    return [*rows, ("attention, a token", f"{s.token:,} bytes")]


def _methods(found: Answer) -> list[Sequence[str]]:
    if not found.layout.drafts:
        one = found.sizes.temporal + found.sizes.conv
        return [("none      no speculation", size(one), size(found.sequences * one))]
    return [(_METHODS[name], size(each), size(found.sequences * each)) for name, each in found.sizes.by_method.items()]


def _waste(found: Answer) -> Iterator[str]:
    drafts, sequences = found.layout.drafts, found.sequences
    yield (
        f"wasted by a state for every position: {drafts} × {size(found.sizes.temporal)} × {sequences} = "
        f"{_both(found.wasted)} of temporal states"
    )
    yield f"  with the convolution window of each slot: {_both(found.wasted_pages)}"
    yield f"freed by RecoverSSM, its records paid for: {_both(found.freed)}"


def _gain(found: Answer) -> Iterator[str]:
    counts = list(found.readings[0].budgets)
    yield f"what yields +{100 * (found.gain or 0):.2f} % of capacity by RecoverSSM instead of a state for every position"
    head = ("A: cache a rank for n sequences", *(f"n={n}" for n in counts), "B: context")
    rows = [
        (r.name, *(size(r.budgets[n]) for n in counts), "none" if r.length is None else f"{r.length:,} tokens")
        for r in found.readings
    ]
    yield from _table(head, rows)
    yield from _OPEN


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return aligned([head, *rows], right=range(1, len(head)))
