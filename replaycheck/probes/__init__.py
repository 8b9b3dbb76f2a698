"""Exact, model-free checks of a kernel or of a state operation. A probe ends in a ProbeResult.

command, table, properties   ``probe kernels``: every kernel × every property
isolated, timed              a process for each kernel; a cell with its time, as a line
subject, pools               a kernel under probe and the calls that are made of it, with pools of NaN round them
answer, difference           from calls that should agree to a cell: exact, noise, broken or can't
accuracy, elementwise        against the float64 oracle: is the error what the recipe predicts?
claim, association           is the claimed recipe the one that it computes? does a store round once?
layout, packing, snapshots, stores
                             unlike widths; mates and repeats; states taken out of a call; what is written where
recording, recorder          activations of a real model as inputs
collection                   the probes of a run: kernels, double_rounding, parallel
"""
