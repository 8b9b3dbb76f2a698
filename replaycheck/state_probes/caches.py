"""Prefix caches against a reference that keeps every state: a seeded walk for each policy of each kind."""

from __future__ import annotations

from collections.abc import Callable

from replaycheck.schema.policy import Policy

from .found import Check, Found, broken, exact
from .policies import POLICIES
from .subject import Subject
from .walk import CacheWalk, Disagreement, walk

__all__ = ["checks"]

STEPS = 400
"""A walk of one policy; 0.1 s. Faults planted in the tests are found within the first 60 steps."""
KINDS = ("reference", "sglang-no-buffer", "sglang-extra-buffer", "vllm-none", "vllm-align")


def checks() -> list[Check]:
    """The rows of the table that this module looks at."""
    required = "hits, stored states and evictions of a reference that keeps every state and compares tokens"
    return [Check(f"cache-{kind}", "prefix caches", required, _look(kind)) for kind in KINDS]


def _look(kind: str) -> Callable[[Subject], Found]:
    def look(subject: Subject) -> Found:
        policies = [policy for policy in POLICIES.values() if policy.cache == kind]
        requests = 0
        for policy in policies:
            try:
                requests += walk(CacheWalk(policy, subject.cache(policy)), STEPS, subject.seed)
            except Disagreement as error:
                return broken("the cache isn't its reference", _smallest(subject, policy, str(error)))
        sentence = f"{len(policies)} policies, {requests} requests, several at once: the same as the reference"
        return exact(sentence, policies=len(policies), requests=requests, steps=len(policies) * STEPS)

    return look


def _smallest(subject: Subject, policy: Policy, first: str) -> str:
    """The shortest failing walk of a few seeds."""
    found = {first: int(first.split()[1].rstrip(":"))}
    for seed in range(subject.seed + 1, subject.seed + 20):
        try:
            walk(CacheWalk(policy, subject.cache(policy)), min(found.values()), seed)
        except Disagreement as error:
            found[str(error)] = int(str(error).split()[1].rstrip(":"))
    text = min(found, key=lambda each: found[each])
    return f"{policy.slug}, {text}"
