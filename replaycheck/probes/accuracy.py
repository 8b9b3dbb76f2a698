"""Numbers against the truth: the error over decays, spans that leave fp32's range, the activations, the other form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaInputs, KdaOutput, concatenate
from replaycheck_kernels.error_model import Predicted, decay_span
from replaycheck_kernels.providers import ProviderError
from replaycheck_kernels.recurrent import RECURRENT_TORCH

from .answer import Answer, CannotProbe, Trial, agreement, within
from .difference import difference, relative
from .kernels import Regime
from .packing import taken
from .pools import against_truth
from .subject import Case, Decays, Subject, words

SPAN = 88.0
"""ln of the largest fp32 is 88.7: the inverse of a decay beyond it isn't finite."""
_LENGTHS = (1, 2, 9, 17, 33, 65)
"""One token, two, and the first that cross half a sub-chunk, a sub-chunk, two of them and a chunk."""


def error(subject: Subject) -> Answer:
    """Error of o and of the final states against float64, in every decay regime and every pool dtype."""
    answer = within(_against_truth(subject), "error against float64")
    if answer.verdict == "broken":
        return replace(answer, example=_smallest(subject) or answer.example)
    pooled = within(_from_pools(subject), "error from and in reduced pools")
    numbers = (*answer.numbers, *pooled.numbers)
    if pooled.verdict != "noise":
        return replace(pooled if pooled.verdict == "broken" else answer, numbers=numbers)
    return replace(answer, sentence=f"{answer.sentence}; {pooled.sentence}", numbers=numbers)


def _smallest(subject: Subject) -> str | None:
    """The shortest sequence whose error is beyond what is predicted; None if it takes a pack to show it."""
    for length in _LENGTHS:
        trials = [_trial(subject, subject.case((length,), decay), words((length,))) for decay in subject.decays()]
        answer = within(trials, "")
        if answer.verdict == "broken":
            return answer.example
    return None


def _against_truth(subject: Subject) -> Iterator[Trial]:
    """Every decay; and the largest batch, where a launch may choose another kernel."""
    for decay in subject.decays():
        yield _trial(subject, subject.case(subject.sizes.lengths, decay))
    yield _in_a_crowd(subject)


def _in_a_crowd(subject: Subject) -> Trial:
    """The first, the middle and the last sequence of the largest batch: the oracle takes a while for all 64."""
    largest, each = max(subject.sizes.batches), subject.sizes.each
    case, chosen = subject.case((each,) * largest), [0, largest // 2, largest - 1]
    few, got = case.part(*((r, 0, each) for r in chosen)), subject.run(case)
    found = concatenate([taken(got, case, r) for r in chosen])
    return Trial(f"{case.name}, batch {largest}", found, subject.truth(few), subject.prediction(few))


def _from_pools(subject: Subject) -> Iterator[Trial]:
    """Every decay on a GPU, where calls are fast."""
    for decay in subject.decays() if subject.device == "cuda" else subject.several():
        case = subject.case(subject.sizes.lengths, decay)
        for dtype in subject.found.can.pool_dtypes:
            if dtype is not torch.float32:
                yield against_truth(subject, case, dtype)


def _trial(subject: Subject, case: Case, suffix: str = "") -> Trial:
    where = ", ".join(filter(None, (case.name, suffix)))
    return Trial(where, subject.run(case), subject.truth(case), subject.prediction(case))


def spans(subject: Subject) -> Answer:
    """Decays that add up to more than 88 nat inside a chunk: is everything finite, and as exact as elsewhere?"""
    largest, trials = 0.0, list[Trial]()
    for case in _wide(subject):
        largest = max(largest, decay_span(case.inputs, subject.recipe(case.inputs)))
        trial = _trial(subject, case)
        for name, tensor, expected in _pairs(trial):
            if not bool(tensor.isfinite().all()):
                gap = difference(name, torch.where(tensor.isfinite(), expected, tensor.double()), expected)
                assert gap is not None
                example = f"{trial.where}: {gap.text()}"
                return Answer("broken", f"not finite where decays span {largest:.0f} nat", example=example)
        trials.append(trial)
    if largest <= SPAN:
        return Answer(
            "can't", f"decays span {largest:.0f} nat at these lengths, and overflow needs more than {SPAN:.0f}"
        )
    return within(trials, f"finite where decays span up to {largest:.0f} nat in a chunk; error against float64")


def _pairs(trial: Trial) -> tuple[tuple[str, Tensor, Tensor], ...]:
    return ("o", trial.found.o, trial.expected.o), ("state", trial.found.final, trial.expected.final)


def _wide(subject: Subject) -> Iterator[Case]:
    """Bounded decays at −5 a token span 80 in 16 tokens and 320 in a chunk; the others −8, 128 and 512."""
    for decay in (each for each in subject.decays() if not each[0].recorded):
        if decay[1] is not None:
            strong = Regime(f"{decay[0].name}, saturated", decay[0].A_log, torch.full_like(decay[0].dt_bias, 8.0))
            yield subject.case(subject.sizes.lengths[:2], (strong, decay[1]))
        elif decay[0].name == "strong":
            yield subject.case(subject.sizes.lengths[:2], decay)


def activation(subject: Subject) -> Answer:
    """Raw beta and decay: are they activated once? Names what the outputs look like, if not."""
    case = _both_ways(subject)
    found, truth = subject.run(case), subject.truth(case)
    others = {name: subject.truth(replace(case, inputs=x)) for name, x in _variants(case.inputs).items()}
    errors = {name: relative(found.o, each.o) for name, each in others.items()}
    name, nearest = min(errors.items(), key=lambda item: item[1])
    mine, allowed = relative(found.o, truth.o), subject.predicted(case).output
    if mine <= allowed:
        sentence = f"beta and decay are activated once: {mine:.2g} from that, {nearest:.2g} from “{name}”"
        return Answer("noise", sentence, mine, allowed)
    like = f"{name} ({nearest:.2g})" if nearest < mine else "none of the variants known here"
    gap = difference("o", found.o, truth.o)
    assert gap is not None
    sentence = f"o is {mine:.2g} from beta and decay activated once; it looks like {like}"
    return Answer("broken", sentence, mine, allowed, gap.text())


def _both_ways(subject: Subject) -> Case:
    """Values that mean something before and after their activation: beta in (0, 1), decay in (−2, 0)."""
    case = subject.case(subject.sizes.lengths[:2])
    x = case.inputs
    b, a = (torch.sigmoid(x.b) * 0.9 + 0.05), -torch.sigmoid(x.a) * 2
    bias = torch.full_like(x.dt_bias, 0.5)
    a, b = a.bfloat16().to(a.dtype), b.bfloat16().to(b.dtype)
    return replace(case, inputs=replace(x, a=a, b=b, dt_bias=bias, A_log=torch.full_like(x.A_log, 0.5)))


def _variants(x: KdaInputs) -> dict[str, KdaInputs]:
    """Inputs with which the oracle computes what a kernel with a mistake would."""
    zero = torch.zeros_like(x.dt_bias)
    return {
        "beta raw, without its sigmoid": replace(x, b=torch.logit(x.b.double())),
        "beta with its sigmoid twice": replace(x, b=torch.sigmoid(x.b.double())),
        "decay raw, without its activation": replace(x, a=_inverse_decay(x), dt_bias=zero),
        "decay without dt_bias": replace(x, dt_bias=zero),
        "decay without A": replace(x, A_log=torch.zeros_like(x.A_log)),
        "no decay": replace(x, a=torch.full_like(x.a, -1e4), dt_bias=zero, lower_bound=None),
    }


def _inverse_decay(x: KdaInputs) -> Tensor:
    """The raw decay whose activation is ``x.a`` itself, without bias."""
    g, rate = x.a.double(), x.A_log.double().exp()[:, None]
    if x.lower_bound is not None:
        return torch.logit(g / x.lower_bound) / rate
    return torch.expm1(-g / rate).log()


def forms(subject: Subject) -> Answer:
    """The chunk form against the recurrent form: noise, never a bug by itself, nor is it one that the other doesn't run."""
    wanted = "recurrent" if subject.form == "chunk" else "chunk"
    other = None
    try:
        device = subject.device if subject.found.runs_on(subject.device) else None
        other = replace(subject, found=subject.provider.kernel(subject.found.kind, wanted, device))
    except ProviderError:
        name = RECURRENT_TORCH.name
    else:
        name = other.found.name
    answer = agreement((_both_forms(subject, other, decay) for decay in subject.several()), f"against {name}")
    beyond = f"{answer.sentence}; not a bug by itself, see error"
    return replace(answer, verdict="noise", sentence=beyond) if answer.verdict == "broken" else answer


def _both_forms(subject: Subject, other: Subject | None, decay: Decays) -> Trial:
    """``other``: None takes our recurrent form under the same recipe."""
    case = subject.case(subject.sizes.lengths, decay)
    mine = subject.run(case)
    if other is None:
        found = RECURRENT_TORCH(case.inputs, case.initial, (), subject.recipe(case.inputs))
    else:
        found = _of_other(other, case)
    return Trial(f"{case.name}, {words(case.inputs.lengths())}", mine, found, partial(_mean, subject, other, case))


def _of_other(other: Subject, case: Case) -> KdaOutput:
    try:
        return other.run(case)
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise CannotProbe(f"{other.found.name} doesn't run: {type(error).__name__}: {reason}") from None


def _mean(subject: Subject, other: Subject | None, case: Case) -> Predicted:
    """The two forms need not round at the same points; ``agreement`` allows twice the mean, which is their sum."""
    mine = subject.predicted(case)
    theirs = other.predicted(case) if other else mine
    return Predicted((mine.state + theirs.state) / 2, (mine.output + theirs.output) / 2)
