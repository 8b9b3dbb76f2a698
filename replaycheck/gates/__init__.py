"""Declared bounds on measured numbers: the files that ship, admission by seeded faults, verdicts, waivers. No torch."""
