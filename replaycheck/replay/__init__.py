"""Schedules × subjects → recordings on disk: workers, parts, resuming, merging, and one road to a verdict."""
