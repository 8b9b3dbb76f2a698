"""Rollback of rejected drafts, model-free: torch on any device, our Triton kernels on a GPU."""

from __future__ import annotations

from collections.abc import Callable

from replaycheck_kernels.speculation.backend import triton_backend
from replaycheck_kernels.speculation.check_methods import Check as Answer
from replaycheck_kernels.speculation.check_methods import method_check
from replaycheck_kernels.speculation.checks import CHECKS, Target
from replaycheck_kernels.speculation.methods import METHODS

from .found import Check, Found, broken, cannot, exact
from .subject import Subject

__all__ = ["checks"]

WIDTHS = (1, 3)
"""No drafts, and two: rows, columns and offsets differ, every count of kept tokens is tried. Wider windows take ten times as
long and break by the same faults; ``python -m replaycheck_kernels.speculation.checks`` goes up to 8."""
REQUIRED = {
    "verify_is_the_recurrence": ("verify", "outputs within the recipe's error of float64; records are the inputs"),
    "verify_is_read_only": ("verify-reads", "the pool keeps its bytes"),
    "rebuild_is_sequential": ("recover-commit", "the sequential state, up to the association of fp32 sums"),
    "boundary_is_the_same_rebuild": ("recover-boundary", "the bits of a commit that ends at the boundary"),
    "compaction_moves_the_window": ("conv-compaction", "kept inputs, byte for byte"),
    "plans_are_the_integers": ("commit-plan", "equal to the integers counted token by token"),
    "copies_move_bytes": ("rollback-copy", "same bytes"),
}
METHOD = "outputs, state and convolution of decoding the kept tokens, rounded once a window"


def checks() -> list[Check]:
    """The rows of the table that this module looks at."""
    rows = [
        Check(f"{backend}-{name}", "speculation", required, _look(backend, function))
        for backend in ("torch", "triton")
        for function, (name, required) in REQUIRED.items()
    ]
    methods = [Check(f"rollback-{name}", "speculation", _required(name), _method(name)) for name in METHODS]
    return [*methods, *rows]


def _required(name: str) -> str:
    if name == "replay":
        return "the bits of the recurrent kernel on the same raw inputs"
    return f"{METHOD}; the state up to the association of fp32 sums" if name == "recover" else METHOD


def _look(backend: str, function: str) -> Callable[[Subject], Found]:
    check = next(each for each in CHECKS if each.__name__ == function)

    def look(subject: Subject) -> Found:
        if backend == "triton" and subject.device == "cpu":
            return cannot("our Triton kernels need a GPU: --device cuda")
        chosen = subject.backend if backend == "torch" else triton_backend()
        return _found(check(Target(chosen, subject.device, subject.recipe, WIDTHS)))

    return look


def _method(name: str) -> Callable[[Subject], Found]:
    return lambda subject: _found(method_check(name)(subject.device, subject.recipe, WIDTHS))


def _found(answer: Answer) -> Found:
    if answer.exact:
        return exact(answer.sentence, **answer.values)
    return broken(answer.sentence, ", ".join(f"{key} {value}" for key, value in answer.values.items()))
