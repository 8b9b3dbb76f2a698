"""Recordings of two arms → pairs, restore records, first divergences, attribution of cold-vs-warm. No torch.

record        what a worker hands over: turns with their logits, restored states
group         the one call of a worker: recordings of a group in, tables and a record out
scored, said  the positions of arms as flat arrays, and the numbers of each different row of logits
logits, casts the maths: log-probabilities in float64, one cast to a pool dtype
top, gaps     what a server says instead of logits, and what it left out
observations, pairs, restores, divergence
              the rows of the four tables
free, free_sums
              free runs: how far two of them share their prefix, and what these positions add up to
saved         pairs of two saved runs, without logits
summarise     from the parts of a run to one result a cell; cell_sums, restore_sums, conv_sums, totals are its sums
spill, columns
              what makes that independent of the number of traces: a scratch file, and arrow columns as arrays
attribution   what a cold-vs-warm difference comes from
baseline      whether a run is no worse than another one
"""
