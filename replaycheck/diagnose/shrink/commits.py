"""The first bad commit, with ``git bisect`` in a worktree of its own: the user's checkout is never touched.

The command's exit codes are those of ``git bisect run``: 0 good, 1 bad, 125 can't be judged. Of replaycheck's codes those
without a verdict (usage, internal, environment, vacuous, inconclusive) skip a commit, too.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from replaycheck.errors import ExitCode, UsageError
from replaycheck.say import Say

__all__ = ["FoundCommit", "bisect_commits", "judged"]

SKIP = 125
_UNJUDGED = (ExitCode.USAGE, ExitCode.INTERNAL, ExitCode.ENVIRONMENT, ExitCode.VACUOUS, ExitCode.INCONCLUSIVE)


@dataclass(frozen=True)
class FoundCommit:
    """``commits``: the first bad one; several if the ones between can't be judged. tried: how often the command ran."""

    commits: tuple[str, ...]
    subjects: tuple[str, ...]
    tried: int

    @property
    def text(self) -> str:
        what = (
            "first bad commit"
            if len(self.commits) == 1
            else "the first bad commit is one of these, which can't be judged"
        )
        lines = [f"{commit[:12]}  {subject}" for commit, subject in zip(self.commits, self.subjects, strict=True)]
        return f"{what} ({self.tried} runs):\n" + "\n".join(lines) + "\n"


def judged(code: int) -> int:
    """The exit code for ``git bisect``: 0 good, 1 bad, 125 skip; others end the search.

    >>> [judged(code) for code in (0, 1, 2, 6, 125, 130)]
    [0, 1, 125, 125, 125, 130]
    """
    if code in (ExitCode.PASS, ExitCode.FAIL):
        return code
    return SKIP if code in _UNJUDGED or code == SKIP else code


def bisect_commits(repository: Path, commits: str, command: str, say: Say) -> FoundCommit:
    """Run ``command`` (split as a shell would, no shell) on commits between GOOD and BAD.

    The command runs in the worktree with ``PYTHONPATH`` set to its package folders, so that `replaycheck` and
    `python -m ...` run the code of the commit.

    Raises:
        UsageError: no such commits, GOOD isn't an ancestor of BAD, or the command was interrupted.
    """
    good, dots, bad = commits.partition("..")
    if not dots or not good or not bad:
        raise UsageError(f"--git {commits!r}: give GOOD..BAD, two commits")
    good, bad = (_git(repository, "rev-parse", "--verify", f"{name}^{{commit}}") for name in (good, bad))
    with TemporaryDirectory(prefix="replaycheck-git-") as scratch:
        tree = Path(scratch) / "tree"
        _git(repository, "worktree", "add", "--detach", str(tree), bad)
        try:
            return _search(tree, good, bad, shlex.split(command), say)
        finally:
            _git(repository, "worktree", "remove", "--force", str(tree))


def _search(tree: Path, good: str, bad: str, command: list[str], say: Say) -> FoundCommit:
    answer = _git(tree, "bisect", "start", bad, good)
    tried = 0
    while (found := _found(answer)) is None:
        at = _git(tree, "rev-parse", "HEAD")
        code = judged(subprocess.run(_words(command), cwd=tree, env=_environment(tree), check=False).returncode)
        tried += 1
        verdict = {0: "good", 1: "bad", SKIP: "skip"}.get(code)
        if verdict is None:
            raise UsageError(f"the command ended with {code} on {at[:12]}; it must end with 0, 1 or {SKIP}")
        say(f"{at[:12]} {_git(tree, 'log', '-1', '--format=%s')}: {verdict}")
        answer = _git(tree, "bisect", verdict, allow=(0, 2))
    return FoundCommit(found, tuple(_git(tree, "log", "-1", "--format=%s", each) for each in found), tried)


def _found(answer: str) -> tuple[str, ...] | None:
    """The commits that git names when it has none left to try."""
    lines = answer.splitlines()
    if lines and lines[0].endswith("is the first bad commit"):
        return (lines[0].split()[0],)
    if "There are only 'skip'ped commits left to test." in answer:
        return tuple(line.strip() for line in lines if len(line.strip()) == 40 and " " not in line.strip())
    return None


def _words(command: list[str]) -> list[str]:
    """``replaycheck`` as the worktree has it, not as it is installed."""
    return [sys.executable, "-m", "replaycheck.cli.main", *command[1:]] if command[:1] == ["replaycheck"] else command


def _environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "kernels")])}


def _git(folder: Path, *words: str, allow: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in allow:
        raise UsageError(f"git {shlex.join(words)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()
