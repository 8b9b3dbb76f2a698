"""Plans of speculative decoding: which slot, column, offset, length and block, as plain data without a tensor.

windows   from a trace's events to the windows of an answer, draftless steps included
drafts    made-up drafts and accept patterns, wrong drafts too
method    what a rollback method is run with; what an engine would refuse late is refused here, with the reason
integers  the formulas of the engines: crossings, columns, biases, commit lengths
steps     the operations of a plan
planner   one compiler a method: windows in, operations out
symbolic  runs a plan on token lists and says where a slot, window or cache doesn't hold what the plan says
checks    a sweep of plans round boundaries, for ``probe state``
rows      windows as rows of an arm's schedule, and as passes of an arm that decodes token by token
lag       a ring with a lag: accepted tokens stay as raw inputs until they must be folded
early     what can't be played, said before anything runs
"""
