"""The cache that a policy names, as an empty one."""

from __future__ import annotations

from replaycheck.schema.policy import CheckpointPolicy, Policy, ServerPolicy, SglangPolicy

from .job import PrefixCache
from .reference import ReferenceCache
from .sglang import ExtraBufferCache, NoBufferCache
from .vllm import AlignCache, NoCache


def prefix_cache(policy: Policy) -> PrefixCache:
    """An empty cache."""
    if isinstance(policy, CheckpointPolicy):
        return ReferenceCache(policy)
    if isinstance(policy, SglangPolicy):
        return ExtraBufferCache(policy) if policy.double_buffer else NoBufferCache(policy)
    if isinstance(policy, ServerPolicy):
        return NoCache(policy.capacity)
    return AlignCache(policy) if policy.align else NoCache(policy.capacity)
