"""A sweep over the architectures of the installed transformers: cache operations against the uncached forward.

discover, tiny, model                          which there are, a small random one of each, and one way to call it
continuation, batch, padding, generating       the operations; operations: their table
bench, judge, precision, top_k, refusal        what they are held against, and what a difference is called
scripts                                        a program for each fault
isolated, sweep, command                       a process for each architecture, the table, the files
"""
