"""Small tensors: one thread."""

from __future__ import annotations

from tests.tensors import one_thread as one_thread
