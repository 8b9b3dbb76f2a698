"""What ``replaycheck bisect RUN`` does: choose a failing case, search, write, and run the command that it prints."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from time import process_time

from replaycheck.assets import model_dir
from replaycheck.errors import InternalError, UsageError
from replaycheck.files import made_folder
from replaycheck.model.config import load_config
from replaycheck.replay.parts import Run
from replaycheck.replay.settings import Settings
from replaycheck.replay.store import read_result
from replaycheck.replay.worker import keep_memory, one_thread
from replaycheck.say import Say
from replaycheck.schema.result import Result
from replaycheck.subjects.choose import LAB

from ..again import Case
from ..examine import examine
from ..explain import Explanation, explain
from .choose import choose, work_of
from .progress import Progress, Smallest, load, save
from .search import Search
from .write import Reproduction, reproduces, write_reproduction

__all__ = ["Shrunk", "shrink"]


@dataclass(frozen=True)
class Shrunk:
    """``tokens``: before and after. seconds: of CPU. fails: the command was run and failed."""

    cell: str
    check: str
    tokens: tuple[int, int]
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    tests: int
    seconds: float
    reproduction: Reproduction
    fails: bool
    explanation: Explanation | None


def shrink(settings: Settings, run: Run, folder: Path, cell: str | None = None, say: Say = lambda line: None) -> Shrunk:
    """Make the smallest failing case of a run, in ``folder``; goes on where an interrupted search stood.

    Raises:
        UsageError: the run has no failing exact cell, isn't of the lab, or the folder belongs to another run.
    """
    if settings.subject != LAB:
        raise UsageError(
            f"the run is of {settings.subject!r}; bisect runs the lab again step by step and can't run others"
        )
    one_thread()
    keep_memory()
    begin = process_time()
    result = read_result(run)
    digest = blake2b(run.result.read_bytes(), digest_size=16).hexdigest()
    case, progress = _start(settings, run, result, folder, digest, cell, say)
    search = Search(case, progress, folder, say)
    done = search.run()
    small = search.case(done.smallest)
    found = write_reproduction(small, folder, small.work.model.resolve() == model_dir(None).resolve())
    say("running the command that reproduces it")
    return Shrunk(
        cell=done.cell,
        check=done.check,
        tokens=(done.tokens_before, small.tokens),
        layers=done.smallest.layers,
        heads=done.smallest.heads,
        tests=done.tests,
        seconds=process_time() - begin,
        reproduction=found,
        fails=reproduces(found),
        explanation=explain(examine(small)),
    )


def _start(
    settings: Settings,
    run: Run,
    result: Result,
    folder: Path,
    digest: str,
    cell: str | None,
    say: Say,
) -> tuple[Case, Progress]:
    known = load(folder, digest)
    if known is not None:
        say(f"going on with {known.cell}: {known.tests} cases were tried")
        return _known(settings, known), known
    case, check = choose(settings, run, result, cell)
    made_folder(folder)
    say(f"{case.candidate.name}, group {case.group.group}: {case.tokens} tokens; fails in {check}")
    config = load_config(case.work.model)
    smallest = Smallest(
        group=case.group,
        reference=case.reference,
        candidate=case.candidate,
        layers=tuple(range(config.num_layers)),
        heads=tuple(range(config.kda_heads)),
    )
    progress = Progress(
        run=digest,
        cell=case.candidate.name,
        check=check,
        tokens_before=case.tokens,
        smallest=smallest,
        tests=0,
        passed=(),
    )
    save(folder, progress)
    return case, progress


def _known(settings: Settings, progress: Progress) -> Case:
    """The case of a search that was begun; its group and arms are the smallest ones so far."""
    arms = {arm.name: arm for arm in settings.arms}
    if progress.cell not in arms:
        raise InternalError(f"the run has no arm {progress.cell!r}")
    s = progress.smallest
    return Case(work_of(settings), s.group, s.reference, s.candidate)
