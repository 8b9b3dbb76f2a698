"""Clean variants: what engines do that changes bits and is no defect. No check may fail on them.

B-1 to B-8 are the benign effects of launches (docs/faults.md); the others are public reports whose right verdict is "no
defect". On the CPU they are emulated, by another recipe, other kernels or another order of sums in both arms of a cell;
with ``--device cuda`` the kernels that run are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from replaycheck.schema.arm import Compiler, Kernel, Padding, Side
from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.recipe import Recipe
from replaycheck_kernels.recurrent import RECURRENT_TORCH

from .catalog.cells import GRID, INTERIOR, MATES, SHORT, TURNS
from .cell import SmallCell
from .recipes import with_fields

__all__ = ["CONTROLS", "Control"]

RecipeChange = Callable[[Recipe], Recipe]


def _same(recipe: Recipe) -> Recipe:
    return recipe


@dataclass(frozen=True)
class Control:
    """A cell that must pass, under a change that both of its arms have.

    Attributes:
        recipe: the change of the arithmetic. kernels: kernels by form instead of ours. sums: a way in which torch's sums are
            evaluated (:mod:`replaycheck_kernels.reordered`).
        against: the clean cell and compiler whose logits it is compared with, to show that it does change bits; None: the
            same cell without the change.
        changes: whether it must change bits, or the control shows nothing.
    """

    name: str
    imitates: str
    cell: SmallCell
    recipe: RecipeChange = _same
    kernels: dict[str, StateKernel] | None = None
    sums: str = ""
    against: tuple[SmallCell, Compiler] | None = None
    changes: bool = True


_BUDGET = replace(TURNS, policy=TURNS.policy.model_copy(update={"budget": 100}))

CONTROLS = (
    Control("plain", "nothing: the cells as they are", TURNS, changes=False),
    Control(
        "small-grid",
        "B-1: a small launch fuses the diagonal into another kernel",
        replace(INTERIOR, recipe="sglang-small-grid"),
        against=(INTERIOR, Compiler.WARM),
    ),
    Control(
        "other-decode-kernel",
        "B-2: a batch of 8 takes another decode kernel",
        TURNS,
        kernels={"recurrent": RECURRENT_TORCH},
    ),
    Control(
        "reference-in-the-middle",
        "B-3: the reference of a diagonal block is a later token",
        INTERIOR,
        recipe=with_fields(diagonal="middle"),
    ),
    Control("other-tiles", "B-4: matrix products with other tiles", INTERIOR, recipe=with_fields(sub_chunk=32)),
    Control(
        "other-engine",
        "B-5: another engine's kernel with roundings of its own",
        replace(INTERIOR, recipe="vllm"),
        against=(INTERIOR, Compiler.WARM),
    ),
    Control(
        "padded-batch",
        "B-6: a captured graph pads its batch",
        replace(SHORT, padding=Padding(side=Side.LEFT, rows=4)),
        against=(SHORT, Compiler.WARM),
        changes=False,
    ),
    Control("two-ranks", "B-7: sums over two ranks", replace(TURNS, tensor_parallel=2), against=(TURNS, Compiler.WARM)),
    Control(
        "other-order-of-sums",
        "B-8: another configuration of a tuned kernel adds in another order",
        INTERIOR,
        recipe=with_fields(merge_first="right"),
    ),
    Control("wide-sums", "B-8: a kernel that adds in a wider format", INTERIOR, sums="exact-sums"),
    Control(
        "approximate-functions",
        "F13: rsqrt for a division, e^x for 2^x",
        INTERIOR,
        recipe=with_fields(norm="rsqrt", exp_base="e"),
    ),
    Control(
        "budget",
        "F27, omlx PR 3066: prefill is cut at other points than without a cache",
        _BUDGET,
        against=(TURNS, Compiler.WARM),
    ),
    Control(
        "cut-by-the-cache",
        "vLLM issue 43090, 5543: switching the cache on moves a near tie",
        INTERIOR,
        against=(INTERIOR, Compiler.COLD),
    ),
    Control(
        "chunk-and-recurrent",
        "vLLM issue 55524: prefill and decode kernels of a layer aren't bit-equal",
        SmallCell("twice", GRID, tail=Kernel.RECURRENT),
        against=(INTERIOR, Compiler.WARM),
    ),
    Control("mates", "a request beside others: batch mates alone change nothing", MATES, changes=False),
    Control(
        "exact-recipe",
        "mamba issue 683: step against scan in fp32, equal up to the association of sums",
        SmallCell("twice", GRID, recipe="exact", tail=Kernel.RECURRENT),
        against=(SmallCell("twice", GRID, recipe="exact"), Compiler.WARM),
    ),
)
