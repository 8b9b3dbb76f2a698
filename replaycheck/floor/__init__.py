"""Noise floors: which controls a set of arms has, what they show, and where a floor holds.

controls          which two arms are two ways to compute the same
measure           ``replaycheck floor``: a suite of controls, written down; text: the same as lines
own, repeat       what a run measures itself, from its arms and from cold repeats
given, place      a floor from a file, and whether it was measured in the same place
sums              what controls show, added up part by part
condition, worst  is a large difference the position's or the state's? for the worst positions of cold against warm
beyond            RC905: what exceeds a floor though no exact check fails
"""
