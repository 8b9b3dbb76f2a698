"""Seeded faults: named functions that spoil a schedule, a recipe or a cast on purpose, to prove that a gate can fail.

Only drivers import this package; the code under test has no hooks for it.
"""
