"""The lab: a small engine of our own that is exact by construction, so that it shows the state effect alone.

layers, convolution   what doesn't depend on the batch: projections, norms, MLP, short convolution; device: of which set
attention             MLA over a paged cache, one query at a time, in a fixed order
kda, kernels          a Kimi Delta Attention layer round a state kernel, and whose kernels those are
weights, network      the whole model on packed rows
state, pool           what a slot holds, and slots of it; pass_states: the states of one pass
executor, batch       schedules in lockstep, each distinct computation once; columns: padding; observer: who watches
rollback, ring        speculation windows of a layer; the raw inputs that a lagging state lacks
own_answers           paths of a free run
parallel              heads split over ranks in one process; parallel_processes: in several; parallel_shard, parallel_sum;
                      parallel_layer, parallel_compare, parallel_checks: compared with the whole
invariance            the start-up check that bits really don't depend on the batch on this machine
"""
