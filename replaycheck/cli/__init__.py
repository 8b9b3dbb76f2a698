"""The command line: one module a verb, which reads options, calls one function elsewhere and prints. No logic."""
