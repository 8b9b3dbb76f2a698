"""architectures.html: the table of ``probe architectures`` as one file that works offline and without scripts."""

from __future__ import annotations

from replaycheck.schema.architectures import ArchitectureTable
from replaycheck.schema.environment import Environment

from .architectures_text import architecture_counts, fault_sentence, floor_words
from .html import templates
from .probe_text import small
from .views import environment_rows

__all__ = ["architectures_page"]


def architectures_page(table: ArchitectureTable, environment: Environment) -> str:
    """The page as text; every string of the library is escaped."""
    return (
        templates()
        .get_template("architectures.html.j2")
        .render(
            table=table,
            counts=architecture_counts(table),
            groups=list(dict.fromkeys(each.group for each in table.operations)),
            own=[(row, cell) for row, cell in table.found("fault") if not cell.follows],
            sentence=fault_sentence,
            floor=floor_words,
            small=small,
            environment=environment_rows(environment),
        )
    )
