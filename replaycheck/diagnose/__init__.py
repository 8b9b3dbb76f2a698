"""Why a cell failed: the first wrong step, layer and head, the cause by name, the smallest case that still fails.

findings, evidence         from a run's tables to findings; codes, pages: their names and documentation
states, rounding, coverage, unsaid, across
                           what tables say by themselves; restores: the table of them as these read it
deeper, again, trail, locate
                           one case run again beside a recorder; from two trails to the first wrong step
examine, symptoms, at_step, at_state, switches, fading
                           what is seen there, and when things are taken out
nearest, holds, lines, windows, casts, variants
                           which tokens, casts or arithmetic give the wrong bits
rules, explain             from symptoms to a code; confusion: how often that is right; words: short lists
shrink                     the smallest case that still fails
"""
