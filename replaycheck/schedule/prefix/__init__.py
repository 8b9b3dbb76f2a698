"""Prefix caches as plans: which prompt hits which stored state, what is stored where, and what is evicted. No tensors.

origin     identities of token prefixes
store      stored states by recency: capacity, holds, eviction
job        a request under way, and what a policy says about it
flat       states by prefix
reference  the reference cache: the longest stored prefix
radix      the radix tree with states at some nodes
sglang     no_buffer and extra_buffer on that tree
vllm       none and align, on blocks
find       the cache that a policy names
"""
