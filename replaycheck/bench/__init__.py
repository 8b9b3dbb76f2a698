"""Benchmarks: how long kernels and whole runs take, beside what other people use. Nothing here judges.

================  ================================================================================================
kernels           ``bench kernels``: state kernels of providers, snapshots, decode; distance to two floors
floors, cases     bytes and FLOP that a call can't do without; the inputs of a call
clock, ceilings   device events; measured copy bandwidth and matmul rate
entries           the functions through which engines call their kernels, timed where an adapter calls them
whole             ``bench run``: the lab and transformers on the same sessions, in turn
workload          sessions of equal shape as schedules of a cold and a warm arm
sides, worker     one process a side: ``lab_side``, ``transformers_side``; ``processes`` talks to them
sharing, profile  what arms share; what share of the replay stage is spent in kernels
state             ``bench state``: verify, commit, slot copies; ``state_calls`` ours, ``state_vllm``, ``state_sglang``
state_world       their tensors; ``state_graph``: no call waits for the host
scale             ``bench scale``: whole runs at growing sizes; ``sessions`` their traces, ``context`` a token's cost
figures, table    samples to figures; figures to text
command           options to a record: also ``state_command``, ``scale_command``, ``kernel_subjects``
================  ================================================================================================

Method: warm-up first, medians of several runs with lowest and highest, subjects in turn (A B A B), ratios within one
process tree and one run; versions and device beside the figures.
"""
