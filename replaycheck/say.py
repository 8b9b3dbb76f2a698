"""How long work tells a person how far it is: a function that takes one line of text, given by whoever shows it."""

from collections.abc import Callable

__all__ = ["Say"]

Say = Callable[[str], None]
"""Takes a line without its end. Called from the process that was asked, never from a worker."""
