"""llama.cpp's HTTP server as a subject: native and OpenAI-style routes (``docs/llamacpp.md``)."""

from .factory import factory

__all__ = ["factory"]
