"""What recurrent states cost: bytes a request, the waste of a state for every speculated position, what a method frees.

geometry   layers, heads and widths, from a config.json, by name or given
sizes      bytes of one request under each rollback method
budget     from a gain in capacity to the budgets or lengths that yield it
answer     all of it for one question, as a record
text       the same as a table
"""
