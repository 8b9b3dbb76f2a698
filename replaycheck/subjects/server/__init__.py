"""Servers as subjects: one HTTP client, one adapter an API, and what their caches are expected to hit."""
