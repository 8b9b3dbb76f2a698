"""The search: take out what isn't needed, what makes later tests cheap first, until nothing more goes."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from replaycheck.model.config import load_config
from replaycheck.say import Say
from replaycheck.schema.arm import Answers, Kernel
from replaycheck.schema.policy import CheckpointPolicy

from ..again import Case
from ..switches import simpler
from . import edits
from .ddmin import fewest, least
from .failure import Check, checks
from .models import reduced
from .progress import Progress, Smallest, save

__all__ = ["Search"]


class Search:
    """One failing case and its smallest version so far. ``folder`` gets the reduced models and the progress."""

    def __init__(self, case: Case, progress: Progress, folder: Path, say: Say = lambda line: None) -> None:
        self._original = case
        self._check = Check(progress.check)
        self._folder = folder
        self._passed = set(progress.passed)
        self._say = say
        self.progress = progress

    @property
    def smallest(self) -> Smallest:
        return self.progress.smallest

    def case(self, smallest: Smallest) -> Case:
        """What is run: on the model that is left of the original."""
        work = replace(
            self._original.work,
            model=self._model(smallest),
            arms=(smallest.reference, smallest.candidate),
        )
        return replace(
            self._original,
            work=work,
            group=smallest.group,
            reference=smallest.reference,
            candidate=smallest.candidate,
        )

    def _model(self, smallest: Smallest) -> Path:
        config = load_config(self._original.work.model)
        whole = tuple(range(config.num_layers)), tuple(range(config.kda_heads))
        if (smallest.layers, smallest.heads) == whole:
            return self._original.work.model
        name = f"layers-{'-'.join(map(str, smallest.layers))}-heads-{'-'.join(map(str, smallest.heads))}"
        (self._folder / "models").mkdir(exist_ok=True)
        return reduced(self._original.work.model, smallest.layers, smallest.heads, self._folder / "models" / name)

    def run(self) -> Progress:
        """All passes, again and again until a whole round changes nothing."""
        while not self.progress.finished:
            before = self.smallest
            for each in (
                self._layers,
                self._requests,
                self._switches,
                self._events,
                self._halves,
                self._turns,
                self._lengths,
                self._heads,
            ):
                each()
            if self.smallest == before:
                self._save(finished=True)
        return self.progress

    def _fails(self, **changes: object) -> bool:
        """Whether the smallest case with these changes fails in the same check; if so, it is the smallest from now on."""
        wanted = self.smallest.model_copy(update=changes)
        if wanted == self.smallest:
            return True
        name = blake2b(wanted.model_dump_json().encode(), digest_size=8).hexdigest()
        if name in self._passed:
            return False
        failing = self._check in checks(self.case(wanted))
        if failing:
            self._save(smallest=wanted, tests=self.progress.tests + 1)
        else:
            self._passed.add(name)
            self._save(tests=self.progress.tests + 1)
        return failing

    def _save(self, **changes: object) -> None:
        self.progress = self.progress.model_copy(update={"passed": tuple(sorted(self._passed)), **changes})
        save(self._folder, self.progress)
        if "smallest" in changes:
            tokens = sum(len(turn.tokens) for trace in self.smallest.group.traces for turn in trace.turns)
            self._say(f"{self.progress.tests} cases tried; {tokens} tokens, {len(self.smallest.layers)} layers")

    def _layers(self) -> None:
        """The first layer alone is tried before halves: most faults need no more."""
        if len(self.smallest.layers) > 1 and not self._fails(layers=self.smallest.layers[:1]):
            fewest(self.smallest.layers, lambda kept: bool(kept) and self._fails(layers=tuple(kept)))

    def _heads(self) -> None:
        fewest(self.smallest.heads, lambda kept: bool(kept) and self._fails(heads=tuple(kept)))

    def _requests(self) -> None:
        group = self.smallest.group
        fewest(group.requests, lambda kept: bool(kept) and self._fails(group=edits.with_requests(group, list(kept))))

    def _events(self) -> None:
        group = self.smallest.group
        fewest(edits.events_of(group), lambda kept: self._fails(group=edits.with_events(group, set(kept))))

    def _switches(self) -> None:
        """Arms without what they needn't have: windows, ranks, padding, limits, a reduced pool, a second kernel."""
        for _, case in simpler(self.case(self.smallest)):
            self._fails(group=case.group, reference=case.reference, candidate=case.candidate)
        case = self.case(self.smallest)
        policy = case.candidate.policy
        changes: list[dict[str, object]] = [{"history": Kernel.CHUNK}, {"tail": Kernel.CHUNK}]
        if isinstance(policy, CheckpointPolicy) and policy.every and (policy.turn_end or policy.prompt_end):
            plain = policy.model_copy(update={"turn_end": False, "prompt_end": False})
            # Without a state of the answer's end, answers are prefilled again.
            changes.append({"policy": plain, "answers": Answers.PREFILLED})
        for change in changes:
            changed = case.with_arms(**change)
            self._fails(reference=changed.reference, candidate=changed.candidate)

    def _halves(self) -> None:
        """All turns cut alike: a long trace becomes short in a few tests."""
        for share in (16, 8, 4, 2):
            group = self.smallest.group
            for place in edits.turns_of(group):
                group = edits.shortened(group, place, edits.length_of(group, place) // share)
            self._fails(group=group)

    def _turns(self) -> None:
        asked = {(request.trace, request.turn) for request in self.smallest.group.requests}
        for place in edits.turns_of(self.smallest.group):
            if place not in asked:
                self._fails(group=edits.without_turn(self.smallest.group, place))

    def _lengths(self) -> None:
        for place in edits.turns_of(self.smallest.group):
            length = edits.length_of(self.smallest.group, place)
            least(length, lambda n, at=place: self._fails(group=edits.shortened(self.smallest.group, at, n)))  # type: ignore[misc]
