"""Run the line again for one group and two arms, with a recorder beside the executor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from replaycheck.compare.record import ArmRecording
from replaycheck.errors import InternalError
from replaycheck.replay.worker import Work, lab_run, planned
from replaycheck.schema.arm import Arm
from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.executor import execute
from replaycheck.subjects.lab.network import Network

from .locate import FirstWrong, first_wrong
from .trail import Key, Seen, Trail

__all__ = ["Case", "Replayed", "replay"]


@dataclass(frozen=True)
class Case:
    """A failing cell on one group: the work of a worker, and the two arms. Only the lab can be run again step by step."""

    work: Work
    group: Group
    reference: Arm
    candidate: Arm

    @property
    def tokens(self) -> int:
        """Tokens of all turns."""
        return sum(len(turn.tokens) for trace in self.group.traces for turn in trace.turns)

    def with_group(self, group: Group) -> Case:
        return replace(self, group=group)

    def with_arms(self, **changes: object) -> Case:
        """Both arms changed alike."""
        return replace(
            self,
            reference=Arm.model_validate(self.reference.model_dump() | changes),
            candidate=Arm.model_validate(self.candidate.model_dump() | changes),
        )


@dataclass(frozen=True)
class Replayed:
    """Both trails and recordings, and the networks.

    refused: what the lab said when it refused to go on, as it does when a slot is read that nothing wrote; the trails end
    there and there are no recordings.
    """

    reference: Trail
    candidate: Trail
    recordings: tuple[ArmRecording, ...]
    networks: tuple[Network, Network]
    refused: str = ""

    @property
    def wrong(self) -> FirstWrong | None:
        """The first wrong step, or None."""
        return self.wrong_but(lambda seen: False)

    def wrong_but(self, skip: Callable[[Seen], bool]) -> FirstWrong | None:
        """The first wrong step that isn't skipped."""
        return first_wrong(self.candidate, self.reference, self.networks[0].config.kda_layers, skip)


def replay(case: Case, keep: Callable[[Key], bool] = lambda key: False) -> Replayed:
    """Both arms in lockstep, as a worker runs them."""
    runs = [lab_run(case.work, planned(case.work, case.group, arm)) for arm in (case.reference, case.candidate)]
    trails = [Trail(run.schedule, keep) for run in runs]
    for run, trail in zip(runs, trails, strict=True):
        run.observer = trail
        run.network.reset()
    networks = runs[0].network, runs[1].network
    try:
        recordings = tuple(execute(runs))
    except InternalError as error:
        return Replayed(trails[0], trails[1], (), networks, str(error))
    return Replayed(trails[0], trails[1], recordings, networks)
