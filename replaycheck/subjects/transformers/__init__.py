"""A local transformers model as a subject: its own forward and its own cache, in this process.

load     the library and the model, from a folder and without anybody's code
state    a cache: copied, measured, and what it stores
play     a schedule's steps
subject  the description, and the factory
"""
