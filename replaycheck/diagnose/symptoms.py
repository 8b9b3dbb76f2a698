"""What was seen at and around the first wrong step: plain facts, no names of faults."""

from __future__ import annotations

from dataclasses import dataclass

from replaycheck.schema.arm import PoolDtype

from .fading import Fading
from .locate import FirstWrong
from .nearest import Nearest
from .switches import Switch
from .trail import Op
from .variants import Explained

__all__ = ["CLEAR", "OWN", "Holds", "Symptoms"]

OWN = "own"
"""The line of the row's own path."""
CLEAR = 0.05
"""A state of a bf16 recipe lies within 2 % of the oracle's (measured on the shipped model and on small random ones, up to
3,000 tokens); one token more or less moves it by 10 % and more in most places. A worse match says nothing."""


@dataclass(frozen=True)
class Holds:
    """The tokens that a wrong state holds.

    Attributes:
        position: how many. foreign: not those of the row's own path, as far as it should go. exact: known from equal
            bits, not from the nearest state of the oracle. line: where they come from.
    """

    position: int
    foreign: bool
    exact: bool
    line: str


@dataclass(frozen=True)
class Symptoms:
    """Facts. Positions count tokens.

    Attributes:
        wrong: the first wrong step; None if every step is right.
        refused: what the lab said when it couldn't go on.
        pool: the dtype of the candidate's pool.
        meant: tokens that the wrong state should hold.
        row_starts_elsewhere: the row begins at another token than in the reference.
        from_nothing: it begins at token 0, where the reference goes on from a stored state.
        other_cuts: the row that computed it begins at a token where none of the reference's does.
        hit: the row goes on from a stored state. verify: it is a window of speculation.
        recurrent, conv: which part of the state is wrong.
        layers: index of the first wrong layer among the recurrent ones. whole: all layers and heads are wrong.
        error: relative, of the recurrent state in its first wrong layer, where it came up: the amplitude at offset 0.
        fading: what became of it at later tokens, if it was followed.
        finite, inputs_finite: of the wrong state, and of what its row had loaded.
        blank: "zero" or "nan" if the whole recurrent state is.
        written_late: nothing was in the slot when the state got its name, and something was later.
        kernels: kernel forms of the row in candidate and reference.
        named: the state that its label means was right when it was stored; None: it wasn't seen.
        brought: a step copied it into a working slot.
        copied: of a copy, whether it was byte for byte.
        slot_changed: the copy that brought the state read another slot than the one it was stored in.
        doubled: another request's store has left these bits earlier, and they are right there. named_live: before its store
            the state was right.
        first_load: the row is the first of its request. call_end: tokens after the request's last call before the step.
        holds: the tokens in the state, if that is clear.
        cast: code and words of a cast that explains the stored bits. rounded_more: it fits the pool's dtype before the cast.
        quantised: the restored state has few even levels. transposed: the reference with axes exchanged. order: heads
            of the reference that are the candidate's, if that is another order.
        shuffled: the wrong convolution windows hold the right values in other places. ranks: that the model is split over.
        nearest: of the oracle, best first, by line. window: token ids of the first layer's convolution window.
        window_ends: positions of the row's path where such a window ends; none: it holds other tokens.
        variants: arithmetic that gives the bits.
        vanishes: what the failure needs. stays: what it doesn't.
        alone: whether the request fails without the others, None if it has none.
        repeats: whether the same run twice has the same first wrong step.
        pages: tokens that the attention cache has more than the reference's.
        null_slot: a step of the executed plan uses slot 0.
        kinds: of stored states by how they were written (inside an extend or at its end, on the grid or off it): the kind,
            how many are wrong, how many there are.
        lost_hits: expected and not proven. share: of the cell's traces, how many show a difference; None: not counted.
    """

    pool: PoolDtype
    wrong: FirstWrong | None = None
    refused: str = ""
    meant: int = 0
    row_starts_elsewhere: bool = False
    from_nothing: bool = False
    other_cuts: bool = False
    hit: bool = False
    verify: bool = False
    recurrent: bool = False
    conv: bool = False
    layer: int = 0
    whole: bool = False
    error: float = 0.0
    fading: Fading | None = None
    finite: bool = True
    inputs_finite: bool = True
    blank: str = ""
    written_late: bool = False
    kernels: tuple[str, str] | None = None
    named: bool | None = None
    brought: bool = False
    slot_changed: bool = False
    copied: bool | None = None
    doubled: bool = False
    named_live: bool = False
    first_load: bool = False
    call_end: int = 0
    holds: Holds | None = None
    cast: tuple[str, str] | None = None
    rounded_more: bool = False
    quantised: bool = False
    transposed: bool = False
    order: tuple[int, ...] = ()
    shuffled: bool = False
    ranks: int = 1
    nearest: tuple[Nearest, ...] = ()
    window: tuple[int, ...] = ()
    window_ends: tuple[int, ...] = ()
    variants: tuple[Explained, ...] = ()
    vanishes: frozenset[Switch] = frozenset()
    stays: frozenset[Switch] = frozenset()
    alone: bool | None = None
    repeats: bool = True
    pages: int = 0
    null_slot: bool = False
    kinds: tuple[tuple[str, int, int], ...] = ()
    lost_hits: int = 0
    share: float | None = None

    @property
    def fades(self) -> bool | None:
        """Whether the error keeps to the model's own half-life; None: not known."""
        return self.fading.fades if self.fading else None

    @property
    def op(self) -> Op | None:
        return self.wrong.key.op if self.wrong else None
