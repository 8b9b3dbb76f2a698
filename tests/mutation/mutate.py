"""Mutation testing of a package: change one operator or number at a time, and see whether the package's tests notice.

    python -m tests.mutation.mutate replaycheck/stats tests/stats
    python -m tests.mutation.mutate replaycheck/gates tests/gates --only waivers --sample 20 --seed 0

Every mutant is tried on the tests that run its line, in a copy, so the checkout isn't touched. Results go to a JSONL file
(--results) as they come: what is known isn't tried again, so a run that was stopped goes on. A mutant that lives and isn't
argued in survivors.toml is printed with its place, so that a person can write the test that is missing, or say why it may
live. Exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.argued import Argued, key
from tests.mutation.changes import Mutant, mutants
from tests.mutation.results import LIVES, Results
from tests.mutation.serve import serve

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "replaycheck", "kernels", "tests", "traces", "models", "examples", "docs", "reports", "pyproject.toml", "README.md"
)  # fmt: skip


def main() -> int:
    """In a copy, with the same options."""
    given = _options()
    if given.here:
        return _mutate(given)
    results = given.results or ROOT / "build" / "mutation" / f"{given.package.replace('/', '.')}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = Path(folder).resolve()
        for name in COPIED:
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
        command = [
            sys.executable,
            "-m",
            "tests.mutation.mutate",
            *sys.argv[1:],
            "--here",
            "--results",
            results.resolve(),
        ]
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = os.environ | one_thread | {"PYTHONPATH": f"{copy}:{copy / 'kernels'}"}
        return subprocess.run(command, cwd=copy, env=environment, check=False).returncode


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("package", help="folder of modules")
    options.add_argument("tests", help="folder of the tests that should notice")
    options.add_argument("--only", default="", help="modules with this in their path")
    options.add_argument("--sample", type=int, help="so many mutants, drawn without replacement; without it, all")
    options.add_argument("--seed", type=int, default=0, help="of the sample")
    options.add_argument("--jobs", type=int, default=1, help="processes at once")
    options.add_argument("--results", type=Path, help="JSONL; in build/mutation without it")
    options.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return options.parse_args()


def _mutate(given: argparse.Namespace) -> int:
    root = Path.cwd()
    modules = sorted(str(path.relative_to(root)) for path in (root / given.package).rglob("*.py"))
    every = [mutant for module in modules if given.only in module for mutant in mutants(root, module)]
    chosen = random.Random(given.seed).sample(every, given.sample) if given.sample else every
    results = Results(given.results, root, given.tests)
    todo = [mutant for mutant in chosen if results.of(mutant) is None]
    begin = time.monotonic()
    if todo:
        serve(root, given.package, given.tests, todo, results, given.jobs)
    print(f"{len(todo):,} mutants tried in {time.monotonic() - begin:,.0f} s")
    return _report(given.package, chosen, results, Argued.load(root))


def _report(package: str, chosen: Sequence[Mutant], results: Results, argued: Argued) -> int:
    outcomes = {mutant: found.outcome for mutant in chosen if (found := results.of(mutant))}
    living = [mutant for mutant, outcome in outcomes.items() if outcome in LIVES]
    bare = [mutant for mutant in living if mutant not in argued]
    for mutant in bare:
        print(f"{outcomes[mutant]}: {mutant.told}")
    killed = {key(mutant) for mutant in outcomes} - {key(mutant) for mutant in living}
    for each in argued.whys:
        if each in killed:
            print(f"argued, but killed: {' '.join(each)}; take it out of survivors.toml")
    count = Counter(outcomes.values())
    print(
        f"{package}: {len(chosen):,} mutants, {count['killed'] + count['limit']:,} killed ({count['limit']} by limits of "
        f"time or memory), {len(living) - len(bare)} argued, {len(bare)} neither"
    )
    return int(bool(bare))


if __name__ == "__main__":
    raise SystemExit(main())
