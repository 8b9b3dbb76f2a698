"""report.html: one file, offline, readable without scripts. It needs a finished run directory and nothing else.

Everything that comes from traces, models or servers is untrusted: each string is escaped by jinja and has its control,
bidi and zero-width characters spelled out, and the page's policy forbids the network and every script but its own, by hash.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import jinja2
from markupsafe import Markup

from replaycheck.text import printable

from .breaks import names
from .budget import BUDGETS, CAP
from .content import content
from .saved import Saved
from .text import number

__all__ = ["render", "templates"]


def render(saved: Saved, show_text: bool = False, against: Saved | None = None) -> str:
    """The page as text, with shorter tables if it would be over :data:`CAP`.

    ``show_text``: show tokens of imported traces, too. ``against``: a run whose environment is compared with this one's.
    """
    environment = templates()
    script = _script(environment)
    page = ""
    for budget in BUDGETS:
        page = environment.get_template("report.html.j2").render(
            script=Markup(script), script_hash=Markup(_digest(script)), **content(saved, show_text, against, budget)
        )
        if len(page.encode("utf-8")) <= CAP:
            break
    return page


def _script(environment: jinja2.Environment) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, "report.js")[0]


def _digest(script: str) -> str:
    """As a content security policy names a script that may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def templates() -> jinja2.Environment:
    """Escapes everything; control characters are spelled out, and an unknown name is an error."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("replaycheck.report"),
        autoescape=True,
        finalize=_finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "figure": _figure, "names": names}
    return environment


def _figure(value: float | str | None) -> str:
    """A probe's value in full: its point is often in the last digits."""
    return value if isinstance(value, str) else number(value) if value is None else f"{value:.12g}"


def _finalize(value: Any) -> Any:
    """Only what we drew ourselves is markup; every other string is shown as it is, not obeyed."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else printable(value)
