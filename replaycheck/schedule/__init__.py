"""Groups compiled to schedules: plain data that says which tokens, which slot, which snapshot. No tensors, no torch.

steps       what a schedule is made of
prefix      prefix caches: the reference, SGLang's and vLLM's
checkpoints where the reference policy stores states
speculation windows of drafts, and how the state is put back after them
tasks       requests with the trace's events, and which of them run together
serve       an engine's loop over a cache: batching, budget, forks, preemption, tiers
operations  what it does, in order, without slots
requests    the logical plan that warm, split and cold share
compile     the one entry: a group and an arm in, a schedule out
warm, split, cold   the compilers
rows, padding       what they have in common: rows of a pass, and passes of a fixed shape
slots       the pool's free list
simulate    the integer simulator {slot → what it holds}; labels, hits and fault predictions read its table
parallel    tensor parallelism: which heads a rank has; parallel_checks holds it against an oracle of names
"""
