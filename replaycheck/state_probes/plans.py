"""Whole plans, without a tensor: groups under every policy, and speculation's windows round every boundary."""

from __future__ import annotations

from collections.abc import Callable

from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.parallel_checks import check_sharding_plans
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.speculation.checks import SETUPS, PlanCheck, check_plans
from replaycheck.schema.arm import Compiler

from .found import Check, Found, broken, exact
from .groups import GROUPS
from .policies import POLICIES, arm_of
from .subject import Subject

__all__ = ["checks"]


def checks() -> list[Check]:
    """The rows of the table that this module looks at."""
    required = "every row, copy and label means what its slot holds; hits as expected"
    groups = Check("plan-groups", "plans", required, _groups)
    shards = Check("plan-shards", "plans", "each rank has the parts of its heads, and no other", _shards)
    equal = "slots, columns, offsets and lengths as counted token by token"
    return [groups, shards, *(Check(f"plan-{_slug(name)}", "plans", equal, _method(name)) for name in SETUPS)]


def _slug(name: str) -> str:
    return name.replace(", ", "-").replace(" ", "-")


def _groups(subject: Subject) -> Found:
    labels = 0
    for name, group in GROUPS.items():
        for slug, policy in POLICIES.items():
            for compiler in (Compiler.WARM, Compiler.SPLIT, Compiler.COLD):
                schedule = compile_schedule(group, arm_of(compiler, policy))
                schedule = subject.spoil(schedule) if compiler is Compiler.WARM else schedule
                run = simulate(schedule)
                labels += len(run.labels)
                if run.problems:
                    return broken("a plan contradicts itself", f"group {name}, {slug}, {compiler}, {run.problems[0]}")
                if compiler is Compiler.WARM and len(run.restores) != schedule.expected_hits:
                    example = f"group {name}, {slug}: {len(run.restores)} restores, {schedule.expected_hits} expected"
                    return broken("a plan restores more or less often than its cache hits", example)
    plans = 3 * len(GROUPS) * len(POLICIES)
    return exact(f"{plans} plans of {len(GROUPS)} groups and {len(POLICIES)} policies, {labels} labels", labels=labels)


def _method(name: str) -> Callable[[Subject], Found]:
    def look(subject: Subject) -> Found:
        answers = subject.once("speculation plans", lambda: {each.name: each for each in check_plans()})
        answer = answers[f"plan: {name}"]
        return _found(answer)

    return look


def _shards(subject: Subject) -> Found:
    answers = list(check_sharding_plans())
    wrong = next((answer for answer in answers if not answer.exact), None)
    return _found(wrong) if wrong else exact(f"{len(answers)} geometries at every degree that divides their heads")


def _found(answer: PlanCheck) -> Found:
    if answer.exact:
        return exact(answer.sentence)
    return broken(
        answer.sentence, ", ".join([answer.name, *(f"{key} {value}" for key, value in answer.values.items())])
    )
