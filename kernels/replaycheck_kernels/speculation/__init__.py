"""Speculative decoding of a recurrent state: verify a window of 1 + d tokens, keep the accepted ones, undo the rest.

An engine runs the last sampled token and d drafts through the layer and learns afterwards how many drafts were right.
Attention forgets the others by cropping its cache; a recurrent state has to be put back. Four ways, which engines use:

slots    (a) a state is stored after every position; the next step reads the right one (vLLM's native form)
copy     (b) states after every position go to a scratch buffer; the right one is copied back (SGLang's scatter)
recover  (c) one checkpoint and compact records; the state is rebuilt from them (vLLM's RecoverSSM)
replay   (d) one checkpoint and a ring of raw inputs; the accepted ones are run again (SGLang's ReplaySSM)

window       a batch of windows, padded, with their lengths on the device
verify       the read-only verify with its records, and the states after every position for (a) and (b)
commit       the commit plan as tensors, and the rebuild of (c)
bound        how far a rebuilt state may be from a sequential one, derived; ``function_bound``: on a GPU, from float64
conv_window  the extended window of the short convolution: roll in, read at an offset, compact
copies       slots of all layers copied by plan, convolution windows at an offset
ring         raw inputs of (d)
pools        slots of temporal and convolution state for all layers
methods      the four ways, step by step, on pools
checks       exact checks of all this, by name, for ``probe state``; ``check_methods``, and the ``cases`` that they run on
backend      torch or Triton behind one interface
triton       verify, commit, compaction and copies as Triton kernels; imported only when used
"""
