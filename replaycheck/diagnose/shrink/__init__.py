"""Make a failing cell small: the shortest schedule, the fewest tokens, layers, heads and switches that still fail alike."""
