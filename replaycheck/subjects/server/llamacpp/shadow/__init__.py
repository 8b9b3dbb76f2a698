"""An integer model of llama.cpp's cache: what its slots and its host cache hold, which prompt hits what, and how each
state was built. Read from the server's own source (builds 11434 and later) and held against the real server by tests."""

from .rules import NAMES, Rules
from .server import Shadow, Taken

__all__ = ["NAMES", "Rules", "Shadow", "Taken"]
