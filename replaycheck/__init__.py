"""replaycheck: does reusing a recurrent state change what the model says?

``load(run)`` opens a saved run for a notebook. ``replaycheck.public`` lists everything that other code may rely on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replaycheck.notebook.run import LoadedRun

__all__ = ["__version__", "load"]

__version__ = "0.1.0"


def load(run: str | Path) -> LoadedRun:
    """A saved run as data frames and objects that a notebook shows as tables.

    Args:
        run: the folder that ``replaycheck run --out DIR`` wrote.

    Raises:
        replaycheck.errors.UsageError: it isn't a finished run, or a file of it is damaged.
    """
    # Not at the top: `replaycheck --help` needs none of pandas, pyarrow and pydantic.
    from replaycheck.notebook.run import LoadedRun

    return LoadedRun.open(Path(run))
