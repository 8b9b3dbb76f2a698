"""The first bad commit of a repository, and a checkout that nobody touches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from replaycheck.diagnose.shrink.commits import bisect_commits
from replaycheck.errors import UsageError

JUDGE = f"{sys.executable} judge.py"


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, list[str]]:
    """Eight commits; ``code`` is what the judge ends with: 1 from the sixth on, and the third can't be judged."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for name, value in (("user.name", "n"), ("user.email", "e@example.org"), ("commit.gpgsign", "false")):
        git(folder, "config", name, value)
    (folder / "judge.py").write_text("import sys; sys.exit(int(open('code').read()))\n")
    commits = []
    for number in range(1, 9):
        (folder / "code").write_text(str(1 if number >= 6 else 125 if number == 3 else 0))
        (folder / "number").write_text(str(number))
        git(folder, "add", "-A")
        git(folder, "commit", "--quiet", "-m", f"commit {number}")
        commits.append(git(folder, "rev-parse", "HEAD"))
    return folder, commits


def test_the_first_bad_commit_is_found_and_the_checkout_is_as_it_was(repository: tuple[Path, list[str]]) -> None:
    folder, commits = repository
    (folder / "code").write_text("mine, not committed")
    found = bisect_commits(folder, f"{commits[0]}..{commits[-1]}", JUDGE, lambda line: None)
    assert found.commits == (commits[5],)
    assert found.subjects == ("commit 6",)
    assert (folder / "code").read_text() == "mine, not committed"
    assert git(folder, "rev-parse", "HEAD") == commits[-1]
    assert len(git(folder, "worktree", "list").splitlines()) == 1
    assert not list(Path(git(folder, "rev-parse", "--absolute-git-dir")).glob("BISECT*"))


def test_commits_that_cant_be_judged_are_named_together(repository: tuple[Path, list[str]]) -> None:
    """If the fourth is bad and the second good, and the third can't be judged, it is one of two."""
    folder, commits = repository
    found = bisect_commits(folder, f"{commits[1]}..{commits[3]}", JUDGE, lambda line: None)
    assert set(found.commits) == {commits[2], commits[3]}
    assert "can't be judged" in found.text


@pytest.mark.parametrize(
    ("commits", "words"),
    [
        ("HEAD", "give GOOD..BAD"),
        ("..HEAD", "give GOOD..BAD"),
        ("HEAD..", "give GOOD..BAD"),
        ("no-such..HEAD", "git rev-parse .*no-such"),
    ],
)
def test_a_range_that_isnt_one_is_refused(repository: tuple[Path, list[str]], commits: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        bisect_commits(repository[0], commits, JUDGE, lambda line: None)


def test_a_command_that_was_interrupted_ends_the_search(repository: tuple[Path, list[str]]) -> None:
    folder, commits = repository
    with pytest.raises(UsageError, match="ended with 130"):
        bisect_commits(
            folder, f"{commits[0]}..{commits[-1]}", f"{sys.executable} -c 'raise SystemExit(130)'", lambda line: None
        )
    assert len(git(folder, "worktree", "list").splitlines()) == 1
