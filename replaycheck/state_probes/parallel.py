"""Tensor parallelism: what ranks have of a layer and of a model is a slice of the whole; only sums over ranks differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from replaycheck.subjects.lab.parallel_checks import check_layers, check_model
from replaycheck_kernels.precision import Precision
from replaycheck_kernels.speculation.check_methods import Check as Answer

from .found import Check, Found, broken, cannot, exact
from .subject import Subject
from .tiny import write_tiny

__all__ = ["checks"]

FORMS = ("chunk", "recurrent")
SLICES = "bits of the slice of the whole, at degrees 2, 4 and 8; sums over ranks within the bound of their order"
MODEL = "on equal layer inputs bits of the slice, at degree 2; sums over ranks within the bound of their order"


def checks() -> list[Check]:
    """The rows of the table that this module looks at."""
    layers = [Check(f"shard-layer-{form}", "parallel", SLICES, _layer(form)) for form in FORMS]
    return [*layers, Check("shard-model", "parallel", MODEL, _model)]


def _layer(form: str) -> Callable[[Subject], Found]:
    def look(subject: Subject) -> Found:
        return _judge(subject, lambda: check_layers(subject.recipe, {form: subject.kernels[form]}, subject.device))

    return look


def _model(subject: Subject) -> Found:
    def run() -> Iterator[Answer]:
        with TemporaryDirectory(prefix="replaycheck-probe-") as folder:
            write_tiny(Path(folder), subject.seed)
            yield from check_model(Path(folder), subject.recipe, subject.kernels, subject.device)

    return _judge(subject, run)


@torch.no_grad()
def _judge(subject: Subject, run: Callable[[], Iterator[Answer]]) -> Found:
    if subject.recipe.activation is Precision.FP64:
        return cannot("the float64 oracle picks the order of a contraction by the number of heads; take another recipe")
    largest = 0.0
    answers = list(run())
    for answer in answers:
        if not answer.exact:
            said = ", ".join([answer.name, *(f"{key} {value}" for key, value in answer.values.items())])
            return broken(answer.sentence, said)
        largest = max(largest, float(answer.values.get("sum_of_bound", 0.0)))
    sentence = f"{answers[0].sentence}; the largest difference of a sum is {largest:.2g} of its bound"
    return exact(sentence, largest_share_of_bound=largest)
