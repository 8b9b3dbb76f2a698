"""``replaycheck sweep``: checkpoint intervals × pool dtypes, so that a person can choose.

choice    what was asked for, as arms and cells of the existing replay      cost      hits, tokens and bytes, from plans
run       replay, compare, one record                                       text      the table
"""
