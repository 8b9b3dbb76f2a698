"""Every record that is written or read, a file for each family, strict and with a JSON Schema. No torch.

base, estimate, problems           what all records share: strictness, a number with its evidence, errors in a reader's words
trace, suite, gate, policy, arm    what a user writes
result, environment, tables, frames, group, shard
                                   a run directory: result.json, environment.json, the tables and what lies beside them
floor, semantics, gaps             evidence in a result: noise, what a log-probability is, what a subject left out
comparison, bisect, golden, selftest, sweep, bench
                                   what other verbs print
probe_table, probe_times, state_table, architectures, server_options
                                   the tables of probes
"""
