"""Faults of prefix caches: a policy in, a cache that errs out. The seeded walk of ``probe state`` looks at them."""

from __future__ import annotations

from replaycheck.schedule.prefix.find import prefix_cache
from replaycheck.schedule.prefix.job import Job, PrefixCache
from replaycheck.schema.policy import Policy, VllmPolicy

__all__ = ["evicts_the_newest", "hits_all_the_same", "never_hits"]


def never_hits(policy: Policy) -> PrefixCache:
    """B17, F28: what was stored isn't found again."""
    cache = prefix_cache(policy)
    find = cache.find

    def missed(job: Job) -> None:
        find(job)  # what the cache remembers of a look-up, it needs later

    cache.find = missed  # type: ignore[method-assign]
    return cache


def hits_all_the_same(policy: Policy) -> PrefixCache:
    """A cache that should keep nothing keeps aligned blocks."""
    return prefix_cache(VllmPolicy(cache="vllm-align", block=64))


def evicts_the_newest(policy: Policy) -> PrefixCache:
    """B75: the order of eviction is turned round."""
    cache = prefix_cache(policy)
    states = cache.store._states
    cache.store.victim = lambda: next(  # type: ignore[method-assign]
        (state for name, state in reversed(states.items()) if not cache.store.held(name)), None
    )
    return cache
