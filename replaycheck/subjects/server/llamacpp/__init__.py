"""llama.cpp's HTTP server as a subject: native and OpenAI-style routes (``docs/llamacpp.md``).

Imports nothing: the process of :mod:`.launch` begins here, and the subject's own modules would take 0.4 s of CPU in each.
"""
