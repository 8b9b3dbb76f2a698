"""Declared bounds on measured numbers: the files that ship, admission by seeded faults, verdicts, waivers. No torch.

load, admission         gate files, and the record that each of their gates can fail
evidence, tables, sums  what gates may look at: a result's parts, and its tables in one pass
metrics                 the numbers that a gate may bound, by name; scoped and measured: what all of them say
differences, states, survival, equivalence
                        those over log-probabilities, restored states, first divergence, and the ratio to a floor
unexplained, unsized, beside
                        those for subjects that decide their own hits, say tokens only, or take requests at once
bounds                  a constant, or a factor times the floor of a cell
judge                   bounds, then waivers, then sequence: verdicts; summary: their counts and the exit code
"""
