"""Groups compiled to schedules: plain data that says which tokens, which slot, which snapshot. No tensors, no torch.

steps       what a schedule is made of
prefix      prefix caches: the reference, SGLang's and vLLM's
checkpoints where the reference policy stores states
tasks       requests with the trace's events, and which of them run together
serve       an engine's loop over a cache: batching, budget, forks, preemption, tiers
operations  what it does, in order, without slots
requests    the logical plan that warm, split and cold share
warm, split, cold   the compilers
slots       the pool's free list
simulate    the integer simulator {slot → what it holds}; labels, hits and fault predictions read its table
"""
