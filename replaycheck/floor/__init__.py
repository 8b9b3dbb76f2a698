"""Noise floors: which controls a set of arms has, what they show, and where a floor holds."""
