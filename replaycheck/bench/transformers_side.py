"""transformers' side: its ``kimi_linear`` with its own cache plays the same schedules, call by call.

A slot holds a cache object; a copy of a slot is a deep copy, as a prefix cache of recurrent states needs one.
Sessions are played one after the other, or in one batch: they have equal lengths, so nothing is padded.
"""

from __future__ import annotations

import copy
import inspect
import os
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from replaycheck.errors import EngineEnvironmentError, InternalError
from replaycheck.schedule.steps import Clear, Compute, Copy, Free, Row, Schedule

from .sides import DECODE, PREFILL, Job, Measured, PassClock, Setup
from .workload import schedules

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
MISSING = (
    "bench run compares with transformers' kimi_linear, which isn't installed ({}); pip install 'replaycheck[models]'"
)


class TransformersSide:
    """The library's own model of the same weights as a side, with its own cache."""

    def __init__(self, setup: Setup) -> None:
        """
        Raises:
            EngineEnvironmentError: transformers isn't there, or knows no kimi_linear.
        """
        self._setup = setup
        _choose_fla(setup)
        try:
            import transformers
            from transformers.models.kimi_linear import modeling_kimi_linear as modeling
        except ImportError as error:
            raise EngineEnvironmentError(MISSING.format(error)) from None
        self._version, self._modeling = transformers.__version__, modeling
        loaded: Any = modeling.KimiLinearForCausalLM.from_pretrained(setup.model, dtype=_DTYPES[setup.dtype])
        self._model = loaded.to(setup.device).eval()

    def facts(self) -> dict[str, str]:
        names = ("chunk_kimi_delta_attention", "recurrent_kimi_delta_attention", "causal_conv1d_fn")
        used = [_implementation(getattr(self._modeling, name)) for name in names]
        return {"transformers": f"{self._version} in {self._setup.dtype}: {', '.join(used)}"}

    @torch.no_grad()
    def run(self, job: Job) -> Measured:
        sessions = schedules(job.sizes, self._setup.text, self._setup.recipe)
        batches = [sessions] if job.together else [[each] for each in sessions]
        clock = PassClock(self._setup.device, job.apart)
        clock.start()
        # By batch and arm: the logits of its sessions.
        kept = [self._play([arms[i] for arms in batch], clock) for batch in batches for i in range(len(batch[0]))]
        seconds = clock.stop()
        return Measured(seconds, clock.tokens, clock.seconds, _logprobs(batches, kept))

    def _play(self, batch: Sequence[Schedule], clock: PassClock) -> list[list[Tensor]]:
        """One arm of some sessions in phase: for each request the logits [B, n, vocabulary] of its calls."""
        slots: dict[int, Any] = {}
        logits: list[list[Tensor]] = [[] for _ in batch[0].requests]
        for step in batch[0].steps:
            if isinstance(step, Clear):
                slots[step.slot] = None
            elif isinstance(step, Copy):
                slots[step.destination] = copy.deepcopy(slots[step.source])
            elif isinstance(step, Free):
                slots.pop(step.slot)
            elif isinstance(step, Compute):
                for row in step.rows:
                    logits[row.request].append(self._forward(batch, row, slots, clock))
        return [[each.cpu() for each in mine] for mine in logits]

    def _forward(self, batch: Sequence[Schedule], row: Row, slots: dict[int, Any], clock: PassClock) -> Tensor:
        if row.snapshots or row.source != row.destination:
            raise InternalError("transformers can't store a state inside a call; the policy must store at a turn's end")
        tokens = torch.tensor([schedule.requests[row.request].tokens[row.a : row.b] for schedule in batch])
        wanted = row.b - max(row.a, batch[0].requests[row.request].prompt - 1)
        output = self._model(
            tokens.to(self._setup.device),
            past_key_values=slots[row.source],
            use_cache=True,
            logits_to_keep=wanted,
        )
        slots[row.destination] = output.past_key_values
        clock.book(PREFILL if row.b - row.a > 1 else DECODE, tokens.numel())
        kept: Tensor = output.logits
        return kept


def _choose_fla(setup: Setup) -> None:
    """On a GPU transformers finds fla itself, in ``--kernels-path`` too; on the CPU an installed fla would find no GPU."""
    os.environ.pop("TRITON_INTERPRET", None)
    if setup.device == "cpu":
        sys.modules["fla"] = None  # type: ignore[assignment]  # importing it fails, as if it weren't installed
    elif setup.kernels_path is not None:
        sys.path.insert(0, str(setup.kernels_path))


def _implementation(function: Any) -> str:
    """The function that transformers' wrapper calls: fla's, or its own in torch."""
    found = inspect.getclosurevars(function).nonlocals.get("implementation", function)
    return f"{found.__module__.rpartition('.')[0] or found.__module__}.{found.__name__}"


def _logprobs(
    batches: Sequence[Sequence[Sequence[Schedule]]], kept: Sequence[Sequence[Sequence[Tensor]]]
) -> tuple[float, ...]:
    """Of the scored tokens, session by session, cold then warm, in float64."""
    found: list[float] = []
    arms = len(batches[0][0])
    for number, batch in enumerate(batches):
        for place, session in enumerate(batch):
            for schedule, requests in zip(session, kept[number * arms : (number + 1) * arms], strict=True):
                for plan, calls in zip(schedule.requests, requests, strict=True):
                    table = torch.log_softmax(torch.cat([call[place] for call in calls]).double(), -1)
                    tokens = torch.tensor(plan.tokens[plan.prompt : plan.end])
                    found += table.gather(1, tokens[:, None])[:, 0].tolist()
    return tuple(found)
