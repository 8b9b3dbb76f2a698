"""``probe state``: every operation on states that must be exact (docs/state-operations.md), one row each.

found        what a check answers            subject      what is looked at, and the parts that a fault can replace
checks       all rows, and how they are run  tiny, groups, policies    what they run on
play         plans on real slots             slots, conv, snapshots    rows about slots and their bytes
tables       the engines' integers           plans        whole plans, speculation's included
walk, oracle, caches      prefix caches against a reference
speculation  rollback methods                lab          groups through the model, warm against split-rounded
pipeline     two steps in flight
batching     budgets, order of packs, padding       parallel     shards of a layer and of a model against the whole
"""
