"""Import traces of other tools. See docs/importing.md for the formats and for how to write an importer of one's own."""

from .api import Context, Head, Importer, Options
from .blocks import Call, Span, block_spans, grow
from .draft import Ask, DraftGroup, DraftTrace
from .fields import Fields, Place
from .log import Log
from .run import choose, import_groups
from .source import SourceFile
from .threads import Message, Thread
from .words import Words, literal, made

__all__ = [
    "Ask",
    "Call",
    "Context",
    "DraftGroup",
    "DraftTrace",
    "Fields",
    "Head",
    "Importer",
    "Log",
    "Message",
    "Options",
    "Place",
    "SourceFile",
    "Span",
    "Thread",
    "Words",
    "block_spans",
    "choose",
    "grow",
    "import_groups",
    "literal",
    "made",
]
