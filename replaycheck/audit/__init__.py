"""Checks beside the executor of stored states: label, dtype, bytes, provenance. They record, or raise when asked to."""
