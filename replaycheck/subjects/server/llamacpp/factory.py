"""How the subject is made: on servers that are given by their addresses, or on our own, started for a model's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from replaycheck.errors import UsageError, choices
from replaycheck.subjects.protocol import SubjectOptions
from replaycheck.subjects.server.http import Client, ServerFault
from replaycheck.subjects.server.settings import ServerSettings
from replaycheck.subjects.server.subject import ServerSubject
from replaycheck.subjects.server.words import choose_words

from .engine import LlamaCpp
from .launch import LlamaServer
from .learn import OPTIONS, cuts_prompts, learn, told
from .options import ServerOptions, Value
from .split import ADVICE
from .wire import PATHS, Route, Wire

__all__ = ["factory"]

ROUTES: Mapping[str, Route] = MappingProxyType({route: route for route in PATHS})

_MORE: Mapping[str, str] = MappingProxyType(
    {
        "route": "native (/completion), openai (/v1/completions) or chat (/v1/chat/completions)",
        "split-url": ADVICE,
        **OPTIONS,
    }
)


class OwnServers:
    """A server of ``model`` and one without checkpoints, for the split arm; they end with this process."""

    def __init__(self, model: Path, values: Mapping[str, Value]) -> None:
        if not model.is_file():
            raise UsageError(f"--model {model}: give a GGUF file, as `replaycheck model export` writes it")
        self._folder = TemporaryDirectory(prefix="replaycheck-")
        here = {"cache-ram": 0, "slot-save-path": f"{self._folder.name}/", **values}
        self.main = LlamaServer(ServerOptions(model, here))
        self.split = LlamaServer(ServerOptions(model, {**here, "ctx-checkpoints": 0, "cache-ram": 0, "parallel": 1}))


def factory(options: SubjectOptions) -> ServerSubject:
    """What ``--subject llamacpp`` calls.

    Raises:
        UsageError: neither ``--url`` nor a model's file, or options that it doesn't have.
        EngineEnvironmentError: it can't be reached, or doesn't start.
    """
    settings = ServerSettings.of(options, _MORE)
    route = options.setting("route") or "native"
    if route not in ROUTES:
        raise UsageError(f"--subject-option route={route}: give {choices(ROUTES)}")
    own = _own(options)
    url = own.main.url if own else options.url
    second = own.split.url if own else options.setting("split-url")
    if url is None:
        raise UsageError(
            "--subject llamacpp needs --url, such as http://127.0.0.1:8080, or --model FILE.gguf to start one"
        )
    wire = Wire(Client(url, settings.limits), settings.top, ROUTES[route])
    split = Wire(Client(second, settings.limits), settings.top) if second else None
    if own:
        options = replace(options, settings=(("cache-ram", "0"), *options.settings))
    engine = LlamaCpp(wire, settings, learn(wire.native, options, known=own is not None), _checked(split, wire), own)
    facts = engine.facts()
    words = choose_words(settings.tokens, facts.model, facts.vocabulary, engine.tokenize)
    return ServerSubject(engine, settings, words)


def _own(options: SubjectOptions) -> OwnServers | None:
    if options.model is None:
        return None
    if options.url or options.setting("split-url"):
        raise UsageError("--model starts servers of its own; leave --url and split-url out")
    return OwnServers(options.model, told(options))


def _checked(split: Wire | None, wire: Wire) -> Wire | None:
    """Raises :class:`ServerFault` if it serves another model or build, or keeps checkpoints."""
    if split is None:
        return None
    there, here = split.model().get("meta"), wire.model().get("meta")
    same = [(there or {}).get(key) == (here or {}).get(key) for key in ("n_params", "size", "n_vocab")]
    if not all(same) or split.props().get("build_info") != wire.props().get("build_info"):
        raise ServerFault(f"{split.client.url}: another model or build than {wire.client.url}; give split-url {ADVICE}")
    if cuts_prompts(split):
        raise ServerFault(f"{split.client.url}: it keeps checkpoints; give split-url {ADVICE}")
    return split
