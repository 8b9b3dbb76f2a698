"""``python -m replaycheck`` is ``replaycheck``: for a Python whose scripts aren't on the path."""

from replaycheck.cli.main import main

main()
