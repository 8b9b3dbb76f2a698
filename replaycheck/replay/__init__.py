"""Schedules × subjects → recordings on disk: workers, parts, resuming, merging, and one road to a verdict.

settings, possible, own_arms, free   what is asked for, resolved; which arms and cells are possible, and why others aren't
run, stage, conclude, assemble       the main job: its replay stage, and the end that resumed and merged runs share
groups, batches, budget, early       which groups are a part, how many fit, when to stop
worker, pool, cluster                what does the work: this process, worker processes, a Ray cluster
store, parts, shards, merge          the run directory, its parquet parts, and shards made elsewhere
environment, semantics, precision    where a run was made, and what a log-probability of it is
across, baseline, rejudge            saved runs: compared, held against a baseline, judged again
sample, synthesise, verify           answers of the float64 oracle; a suite made of them; an engine against golden values
dry, activation                      ``--dry-run``; prefill whose beta and decay are activated before the kernel
"""
