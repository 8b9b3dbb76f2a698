"""Groups compiled to schedules: plain data that says which tokens, which slot, which snapshot. No tensors, no torch.

steps       what a schedule is made of
checkpoints where a policy stores states
cache       the reference prefix cache: the longest checkpointed prefix
requests    the logical plan that warm, split and cold share
warm, split, cold   the compilers
simulate    the integer simulator {slot → what it holds}; labels, hits and fault predictions read its table
"""
