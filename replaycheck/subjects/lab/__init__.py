"""The lab: a small engine of our own that is exact by construction, so that it shows the state effect alone.

layers      projections, norms and MLP that don't depend on the batch
attention   MLA over a paged cache, one query at a time, in a fixed order
kda         a Kimi Delta Attention layer round a state kernel
network     the whole model on packed rows
pool        slots of state
executor    schedules in lockstep
parallel    heads split over ranks: in one process, in several, and compared with the whole
invariance  the start-up check that bits really don't depend on the batch on this machine
"""
