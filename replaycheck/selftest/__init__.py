"""``replaycheck selftest``: plant faults on purpose, and see which gate or probe catches each.

run         the whole of it: admission, then the matrix
admission   each gate's own fault, on the quick suite; writes the records beside gate files
lab         a fault in its small cell, held against split-rounded          seen       what the cell showed
probes      a fault in the kernel, state and extreme probes                controls   clean variants that must not alarm
extremes    inputs that no text brings about
reduced     a small suite with floors and several traces, for gates that need them
matrix      all of them over several seeds, in worker processes
confusion   the same faults, named by the classifier
study       false alarms over seeds; noisy: the subject of that
"""
