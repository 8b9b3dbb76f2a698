"""State maths: what a recurrent layer computes, in every form that engines use, with each rounding point as data.

oracle      the recurrence in float64, token by token; every other kernel is tested against it
recurrent   the recurrence as decode kernels run it, in torch and compiled for the CPU
chunk       the chunk (WY) form as prefill kernels run it: an emulator that runs any recipe
intermediates  what the chunk form computes on its way, to test a provider's claim of a recipe
conv        the short convolution with its state
recipe      the precision of each intermediate and the structural choices, as data

The package imports nothing of ``replaycheck``; errors are ``ValueError`` with what was given and what is allowed.
"""
