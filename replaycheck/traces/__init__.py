"""Trees of turns: read, write, validate, import, export, describe, draw like others; the suites that ship. No torch."""
