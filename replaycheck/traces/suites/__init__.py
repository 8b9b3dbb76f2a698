"""The suites that ship, as code: specs and the texts written for them.

catalog                 the suites by name, and which sizes of them can be made
quick, speculation, policies, archetypes
                        the suites; script: how a trace is written, turn by turn
sizes, draw             how large; random choices that stay the same over versions of Python
texts, voice, voices, words
                        what is said in them
"""
