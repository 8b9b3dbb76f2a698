"""State maths: what a recurrent layer computes, in every form that engines use, with each rounding point as data.

contract            the one call that all implementations share; registry: those that there are, by name
oracle              the recurrence in float64, token by token; every other kernel is tested against it
recurrent           the recurrence as decode kernels run it, in torch; compiled: for the CPU
chunk               the chunk (WY) form as prefill kernels run it: an emulator that runs any recipe
intra, grid         inside a chunk; where chunks start
activation          decay, beta, q and k before the recurrence
conv                the short convolution with its state; compiled_conv: for the CPU
recipe, precision   the precision of each intermediate and the structural choices, as data; rounding, emulated
error_model         the error against float64 that a recipe predicts; hardware: errors of a GPU's functions
claims              does a kernel compute what its recipe claims? intermediates and reordered: what that is held against
triton              both forms on the GPU        dense        a model's other operations on the GPU
speculation         windows of drafts            providers    kernels of other packages

The package imports nothing of ``replaycheck``; errors are ``ValueError`` with what was given and what is allowed.
"""
