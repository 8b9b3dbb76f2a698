"""Exact, model-free checks of a kernel or of a state operation. A probe ends in a ProbeResult."""
