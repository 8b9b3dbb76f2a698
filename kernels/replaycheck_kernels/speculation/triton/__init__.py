"""Speculation as Triton kernels: the same calls as the torch forms, with every plan on the device.

activation  what kernels share: norm of a key, decay
verify      the read-only verify with records, one launch a layer
commit      commit plan, rebuild of all layers, compaction of all layers: one launch each
support     what the launchers refuse
copies      temporal states and convolution windows of all layers, one launch

Nothing here is imported until it is used; importing needs Triton. No call asks the host for a value, so all of them can be
captured in a CUDA graph and replayed with other contents of the plan. On the CPU they run in Triton's interpreter, which
proves indices and plans, not a GPU's bits.
"""
