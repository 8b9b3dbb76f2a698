"""A program for each operation that shows its fault with transformers alone, for whoever mends it. Under 40 lines.

The same model, tokens and calls as the sweep's. Differences are printed in nat, with how many positions differ by more than
twice the floor.
"""

from __future__ import annotations

import textwrap
from dataclasses import fields
from typing import Any

from replaycheck.schema.architectures import ArchitectureCell

from .discover import version
from .model import Model
from .tiny import sizes

__all__ = ["script"]

_HEAD = """\
# {title}
import sys
sys.modules["fla"] = None  # transformers' own code, also where fla is installed
import copy, torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, StaticCache
config = AutoConfig.for_model({name!r}, **{config})
torch.manual_seed({seed}); torch.set_grad_enabled(False)
model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", experts_implementation="eager").eval()
for weight in model.parameters():
    weight += 0.1 * torch.randn_like(weight) if weight.dim() == 1 else 0
plain = copy.deepcopy(model)
def talk(n): return torch.randint(3, 128, (1, 133), generator=torch.Generator().manual_seed({draws} + n))
def show(what, logits, tokens, first):  # [n, vocabulary] of the positions from `first` on, against no cache
    alone = plain(tokens, use_cache=False).logits[0, first : first + len(logits)]
    off = (logits.double().log_softmax(-1) - alone.double().log_softmax(-1)).abs().amax(-1)
    wrong = [first + i for i, by in enumerate(off) if not by <= {bound:.1e}]
    print(f"{{what}}: {{off.max():.2g}} nat, {{len(wrong)}} of {{len(off)}} positions wrong, from", wrong[:1])
"""

_STEP = """\
def step(tokens, cache=None):
    out = model(tokens, use_cache=True, **({{}} if cache is None else {{{key!r}: cache}}))
    return out.logits, out[{key!r}]
"""

#: For a family whose forward gives no cache back.
_STEP_WITHOUT = """\
def step(tokens, cache=None):
    cache = cache or DynamicCache(config=config)
    return model(tokens, use_cache=True, {key}=cache).logits, cache
"""

_GO = """\
def go(tokens, at, cache, pieces=(1,) * 8):  # logits [rows, n, vocabulary] of the tokens from `at` on
    logits = []
    for piece in tokens[:, at : at + sum(pieces)].split(pieces, 1):
        part, cache = step(piece, cache)
        logits.append(part)
    return torch.cat(logits, 1)
"""

_PIECES = """\
for cuts in {plans}:
    show(f"cut into {{cuts[:4]}}", go(talk(0), 0, {start}, cuts)[0], talk(0), 0)
"""

_TOGETHER = """\
rows = torch.cat([talk(n) for n in range(3)])
_, cache = step(rows[:, :70])
logits = go(rows, 70, cache)
print("logits of 3 rows and 8 tokens:", list(logits.shape))
for row in range(3):
    show(f"row {{row}}", logits[row], rows[row : row + 1], 70)
"""

_ROWS = """\
for order in {orders}:
    rows = torch.cat([talk(n) for n in range({rows})])[:, :70]
    _, cache = step(rows)
    cache.{method}({argument})
    tokens = torch.cat([rows[order], torch.cat([talk(10 + n) for n in range(len(order))])[:, 70:]], 1)
    for row, logits in enumerate(go(tokens, 70, cache)):
        show(f"{method} to {{order}}, row {{row}}", logits, tokens[row : row + 1], 70)
"""

_PADDED = """\
cache, mask, used = None, torch.zeros(3, 0, dtype=torch.long), [0, 0, 0]
for turn, lengths in enumerate({turns}, 1):
    ids, most = torch.zeros(3, max(lengths), dtype=torch.long), max(lengths)
    at = [slice(most - n, most) if {left} else slice(n) for n in lengths]
    for row, n in enumerate(lengths):
        ids[row, at[row]] = talk(row)[0, used[row] : used[row] + n]
    mask = torch.cat([mask, (ids > 0).long()], 1)
    cache = cache if cache or {back} else DynamicCache(config=config)
    given = {{"attention_mask": mask, "use_cache": True, {key!r}: cache}}
{positions}    inputs = model.prepare_inputs_for_generation(ids, is_first_iteration=most > 1, **given)
    out = model(**inputs | {keep})
    cache = {cache}
    for row, n in enumerate(lengths):
        show(f"turn {{turn}}, row {{row}}", out.logits[row][at[row]], talk(row), used[row])
        used[row] += n
"""

_TURNS = """\
ids, cache = talk(0)[:, :70], None
for turn in (1, 2, 3):
    out = model.generate({given}, **({{}} if cache is None else {{{key!r}: cache}}), attention_mask=torch.ones_like(ids),
        max_new_tokens=4, min_new_tokens=4, do_sample=False, output_logits=True, return_dict_in_generate=True)
    ids, logits = torch.cat([ids, out.sequences[:, -4:]], 1), torch.cat(out.logits)
    cache, seen = out.past_key_values, ids
    ids = torch.cat([ids, talk(turn)[:, :11]], 1)
    show(f"turn {{turn}}", logits, seen, seen.shape[1] - 5)
"""

_INTERLEAVED = """\
caches, logits = [None] * 3, [[], [], []]
for a, b in [(0, 20)] + [(i, i + 1) for i in range(20, 28)]:
    for n in range(3):
        part, caches[n] = step(talk(n)[:, a:b], caches[n])
        logits[n].append(part[0])
        model(talk(3)[:, : b + 10], use_cache=False)
for n in range(3):
    show(f"conversation {{n}}", torch.cat(logits[n]), talk(n), 0)
"""

_FORK = """\
_, cache = step(talk(0)[:, :70])
ways = [("first copy", copy.deepcopy(cache), 1), ("second copy", copy.deepcopy(cache), 0), ("original", cache, 1)]
found = []
for name, cache, tail in ways:
    tokens = torch.cat([talk(0)[:, :70], talk(tail)[:, 70:]], 1)
    found.append((name, go(tokens, 70, cache)[0], tokens, 70))
for each in found:
    show(*each)
"""

_RESET = """\
_, cache = step(talk(0))
cache.reset()
show("another conversation after reset()", go(talk(1), 0, cache, (133,))[0], talk(1), 0)
"""

_BACK = """\
_, cache = step(talk(0)[:, :70])
{before}_, cache = step(talk(1)[:, 70:75], cache)
cache.crop(-5)
show("five tokens taken back", go(talk(0), 70, cache)[0], talk(0), 70)
"""

_BEAMS = """\
out = model.generate(talk(0)[:, :70], attention_mask=torch.ones(1, 70, dtype=torch.long), max_new_tokens=4, min_new_tokens=4,
    do_sample=False, num_beams=3, num_return_sequences=3, length_penalty=0.0, output_scores=True,
    return_dict_in_generate=True)
for ids, said in zip(out.sequences[:, None], out.sequences_scores):
    rows = plain(ids, use_cache=False).logits[0, -5:-1].double().log_softmax(-1)
    print(f"a beam says {{said:.5f}}; its tokens have {{rows.gather(1, ids[0, -4:, None]).sum():.5f}} without a cache")
"""

_PREFILL = """\
for size, pads in ((32, [0]), (23, [0]), (16, [0, 5, 37])):
    rows = [torch.nn.functional.pad(talk(n)[:, : 70 - left], (left, 0)) for n, left in enumerate(pads)]
    out = model.generate(torch.cat(rows), attention_mask=(torch.cat(rows) > 0).long(), prefill_chunk_size=size,
        max_new_tokens=4, min_new_tokens=4, do_sample=False, output_logits=True, return_dict_in_generate=True)
    for n, left in enumerate(pads):
        logits = torch.stack([part[n] for part in out.logits])
        show(f"pieces of {{size}}, {{left}} padding tokens", logits, out.sequences[n : n + 1, left:], 69 - left)
"""

_ALONE = "[(1, 1, 1)] * 4"
_FIRST = "(50, 49, 13)"
_BODIES: dict[str, tuple[str, dict[str, str]]] = {
    "pieces": (_GO + _PIECES, {"plans": "((1, 132), (3, 130), (64, 69), (132, 1), (7,) * 19)", "start": "None"}),
    "token-by-token": (_GO + _PIECES, {"plans": "((1,) * 133,)", "start": "None"}),
    "static-cache": (
        _GO + _PIECES,
        {"plans": "((133,), (70, 63), (3, 60) + (1,) * 70)", "start": "StaticCache(config=config, max_cache_len=141)"},
    ),
    "fork": (_GO + _FORK, {}),
    "interleaved": (_INTERLEAVED, {}),
    "reset": (_GO + _RESET, {}),
    "crop": (_GO + _BACK, {"before": ""}),
    "rollback": (_GO + _BACK, {"before": "cache.activate_past_recording()\n"}),
    "together": (_GO + _TOGETHER, {}),
    "reorder": (
        _GO + _ROWS,
        {"orders": "([2, 0, 0],)", "rows": "3", "method": "reorder_cache", "argument": "torch.tensor(order)"},
    ),
    "select": (
        _GO + _ROWS,
        {"orders": "([2, 0, 1],)", "rows": "3", "method": "batch_select_indices", "argument": "torch.tensor(order)"},
    ),
    "repeat": (
        _GO + _ROWS,
        {"orders": "([0, 0, 1, 1],)", "rows": "2", "method": "batch_repeat_interleave", "argument": "2"},
    ),
    "left": (_PADDED, {"turns": f"[{_FIRST}] + {_ALONE}", "left": "True"}),
    "right": (_PADDED, {"turns": f"[{_FIRST}]", "left": "False"}),
    "left-later": (_PADDED, {"turns": f"[(40, 40, 40), {_FIRST}] + {_ALONE}", "left": "True"}),
    "right-later": (_PADDED, {"turns": f"[(40, 40, 40), {_FIRST}]", "left": "False"}),
    "behind-right": (_PADDED, {"turns": f"[{_FIRST}] + {_ALONE}", "left": "False"}),
    "full-ids": (_TURNS, {"given": "ids"}),
    "new-ids": (_TURNS, {"given": "ids if cache is None else ids[:, -12:]"}),
    "beams": (_BEAMS, {}),
    "prefill-pieces": (_PREFILL, {}),
}


def script(model: Model, floor: float, seed: int, cell: ArchitectureCell) -> str:
    """The program that shows the fault of a cell."""
    operation, (body, values) = cell.operation, _BODIES[cell.operation]
    step = (_STEP if model.gives_back else _STEP_WITHOUT) if "step(" in body else ""
    size = "NaN" if cell.size is None else f"{cell.size:.2g} nat"
    title = f"transformers {version()}, {model.name}, {operation}: {size}, first at position {cell.first_wrong}"
    return (_HEAD + step + body).format(
        title=title,
        name=model.name,
        config=_config(model),
        seed=seed,
        draws=1000 * seed,
        bound=2 * floor,
        key=model.cache_name,
        **_padded_values(model),
        **values,
    )


def _padded_values(model: Model) -> dict[str, Any]:
    """What a padded step takes besides its mask."""
    positions = '    given["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)[:, -most:]\n'
    return {
        "positions": positions if "position_ids" in model.parameters else "",
        "keep": '{"logits_to_keep": 0}' if "logits_to_keep" in model.parameters else "{}",
        "cache": f"out[{model.cache_name!r}]" if model.gives_back else f"given[{model.cache_name!r}]",
        "back": model.gives_back,
    }


def _config(model: Model) -> str:
    """The sizes that differ from the family's own, as a dictionary of few lines."""
    defaults = {each.name: each.default for each in fields(model.config)}
    given = {name: value for name, value in sizes(model.name).items() if defaults.get(name, ...) != value}
    return "\n    ".join(textwrap.wrap(repr(given), 150, break_long_words=False, break_on_hyphens=False))
