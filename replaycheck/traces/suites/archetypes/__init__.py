"""The seventeen ways in which a state is reused (docs/traces.md). A function each: a scene in, the specs of groups out."""
