"""vLLM's multi-turn generator (``generate_multi_turn.json``): distributions instead of conversations.

They are drawn here, with a seed made of the file's bytes, by numpy's RandomState, whose draws are the same in every
version. Words are made; the text files that the spec names are never opened. All conversations share the common prefix, so
they are one trace; clients take turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from numpy.random import RandomState

from .api import Context, Head, Importer
from .draft import DraftGroup
from .fields import MAX_LENGTH, Fields
from .source import SourceFile
from .words import made

__all__ = ["IMPORTER"]

#: Values that a spec draws are lengths and counts; conversations are drawn in memory, all of a file.
_MAX_TURNS = 10_000
_MAX_CONVERSATIONS = 10_000
_MAX_ANSWERS = 100_000
_DISTRIBUTIONS = ("constant", "uniform", "lognormal", "zipf", "poisson")


def _recognise(head: Head) -> str | None:
    record = head.first("filetype", "prompt_input", "prompt_output")
    return (
        "'filetype' is 'generate_conversations'" if record and record["filetype"] == "generate_conversations" else None
    )


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        for spec in source.records():
            yield _group(source, spec, context)


def _group(source: SourceFile, spec: Fields, context: Context) -> DraftGroup:
    log = context.log
    log.drop("text file that the spec names; words were made", len(spec.array("text_files", [])))
    draw = RandomState(int(source.sha256[:8], 16))
    group, prompt = DraftGroup(source, "generated"), spec.object("prompt_input")
    trace = group.trace("conversations")
    common = _draw(prompt, "common_prefix_num_tokens", draw) if "common_prefix_num_tokens" in prompt else 0
    root = trace.add(None, "system", made(common, source.sha256, "common")) if common else None
    # A turn is a message: two turns, a question and its answer.
    counts = [
        max(1, min(_draw(prompt, "num_turns", draw), _MAX_TURNS) // 2)
        for _ in range(spec.integer("num_conversations", 1, _MAX_CONVERSATIONS))
    ]
    if sum(counts) > _MAX_ANSWERS:
        spec.fail(
            "num_conversations", f"{sum(counts)} answers are drawn; allowed: at most {_MAX_ANSWERS}, ask for fewer"
        )
    last: list[int | None] = [root] * len(counts)
    for turn in range(max(counts)):
        for number in (number for number, count in enumerate(counts) if turn < count):
            length = _draw(prompt, "num_tokens", draw)
            if turn == 0 and "prefix_num_tokens" in prompt:
                length += _draw(prompt, "prefix_num_tokens", draw)
            question = trace.add(last[number], "user", made(length, source.sha256, number, turn, "question"))
            out = _draw(spec.object("prompt_output"), "num_tokens", draw)
            last[number] = trace.add(
                question, "assistant", made(max(0, out - 1), source.sha256, number, turn, "answer")
            )
            group.ask(trace, last[number])  # type: ignore[arg-type]
    return group


def _draw(fields: Fields, name: str, draw: RandomState) -> int:
    """One value of a distribution, at least 0 and at most ``max``."""
    spec = fields.object(name)
    kind = spec.text("distribution")
    if kind not in _DISTRIBUTIONS:
        spec.fail("distribution", f"{kind[:40]!r} is unknown; allowed: {', '.join(map(repr, _DISTRIBUTIONS))}")
    top = spec.integer("max", 0, default=MAX_LENGTH)
    return max(0, min(int(_value(kind, spec, draw)), top))


def _value(kind: str, spec: Fields, draw: RandomState) -> float:
    if kind == "constant":
        return spec.integer("value")
    if kind == "uniform":
        low = spec.integer("min")
        return float(draw.randint(low, spec.integer("max", low) + 1))
    if kind == "poisson":
        return float(draw.poisson(_bounded(spec, "alpha", 0, MAX_LENGTH)))
    if kind == "zipf":
        # Below 1.01 most draws pass what an integer holds.
        return float(draw.zipf(_bounded(spec, "alpha", 1.01, 100)))
    if "average" in spec:
        # The mean of the lognormal with sigma 1 is e^½ times its median.
        return float(draw.lognormal(math.log(_bounded(spec, "average", 1, MAX_LENGTH)) - 0.5, 1.0))
    return float(draw.lognormal(_bounded(spec, "mean", -20, 20), _bounded(spec, "sigma", 0, 10)))


def _bounded(spec: Fields, name: str, low: float, high: float) -> float:
    value = spec.number(name)
    if not low <= value <= high:
        spec.fail(name, f"{value} isn't allowed; allowed: {low} to {high}")
    return value


IMPORTER = Importer("vllm", "vLLM multi-turn generator specs: drawn with a seed", _recognise, _read)
