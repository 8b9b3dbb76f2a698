"""The faults that ship, by family, with the cell that shows each, what it shows there, and who claims to catch it."""
