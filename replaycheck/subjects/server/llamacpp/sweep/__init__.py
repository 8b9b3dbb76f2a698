"""``--server-options sweep``: every option that reuses, shifts, moves or rounds cached text, on the real server."""
