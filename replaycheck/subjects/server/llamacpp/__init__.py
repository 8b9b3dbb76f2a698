"""llama.cpp's HTTP server as a subject: native and OpenAI-style routes (``docs/llamacpp.md``)."""

from .engine import factory

__all__ = ["factory"]
