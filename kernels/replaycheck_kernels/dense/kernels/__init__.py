"""Triton code of the dense operations; imported by the launchers at their first call, so that Triton stays optional."""
