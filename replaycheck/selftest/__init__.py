"""``replaycheck selftest``: plant faults on purpose, and see which gate or probe catches each.

admission   each gate's own fault, on the quick suite; writes the records beside gate files
lab         a fault in its small cell, held against split-rounded          seen       what the cell showed
probes      a fault in the kernel, state and extreme probes                controls   clean variants that must not alarm
matrix      all of them over several seeds, in worker processes
"""
