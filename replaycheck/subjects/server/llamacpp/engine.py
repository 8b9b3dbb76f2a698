"""The adapter: llama.cpp's server as an engine that the one server subject drives.

Cold runs with ``cache_prompt: false`` on the last slot, warm on the first: with two slots or more a cold request leaves
the text and the checkpoints under test alone (with one it replaces them). A hit is what ``timings.cache_n`` says. An answer
is forced and decoded in one request: a chain of requests of one token each would store a checkpoint for every token, and
push out those under test.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from replaycheck.compare.top import Entry
from replaycheck.errors import UsageError, choices
from replaycheck.subjects.protocol import SubjectOptions
from replaycheck.subjects.server.engine import Ask, Facts, Reply
from replaycheck.subjects.server.http import Client, Refused, ServerFault
from replaycheck.subjects.server.settings import ServerSettings
from replaycheck.subjects.server.subject import ServerSubject
from replaycheck.subjects.server.words import choose_words

from .wire import Completion, Wire, force

__all__ = ["LlamaCpp", "factory"]

WARM = 0
"""The slot of warm requests."""

_NOT_SEEN = (
    "logits of the whole vocabulary (best=20 by default), recurrent states, checkpoints, and their dtype",
    "its host cache (--cache-ram) can't be emptied over HTTP, so a warm arm may hit text of an earlier one; start it with "
    "--slot-save-path DIR and --cache-ram 0 where hits of one arm alone are wanted",
)


class LlamaCpp:
    """See :class:`replaycheck.subjects.server.engine.Engine`."""

    def __init__(self, wire: Wire, settings: ServerSettings) -> None:
        self._wire, self._settings = wire, settings

    def facts(self) -> Facts:
        props, model = self._wire.props(), self._wire.model()
        meta = model.get("meta") or {}
        vocabulary = self._settings.vocabulary or meta.get("n_vocab")
        if not isinstance(vocabulary, int):
            raise ServerFault(f"{self._wire.client.url}/v1/models says no n_vocab; is this llama.cpp's server?")
        length = (props.get("default_generation_settings") or {}).get("n_ctx")
        return Facts(
            name="llama.cpp",
            version=str(props.get("build_info")),
            model=str(model.get("id")).rpartition("/")[2],
            vocabulary=vocabulary,
            length=self._settings.length or (length if isinstance(length, int) else None),
            answers=True,
            settings={
                "slots": str(props.get("total_slots")),
                "route": self._wire.route,
                **{key: str(meta[key]) for key in ("n_params", "size") if key in meta},
            },
            not_seen=_NOT_SEEN,
        )

    @cached_property
    def _slots(self) -> int:
        slots = self._wire.props().get("total_slots")
        return slots if isinstance(slots, int) and slots > 0 else 1

    @cached_property
    def _ends(self) -> frozenset[int]:
        """Ids that end a generation, as far as the server says."""
        text = self._wire.props().get("eos_token")
        found = self.tokenize(str(text), special=True) if text else []
        return frozenset(found) if len(found) == 1 else frozenset()

    def tokenize(self, text: str, special: bool = False) -> list[int]:
        """Ids of a text, by the server's tokenizer."""
        body = {"content": text, "parse_special": special, "add_special": False}
        found = self._wire.client.post("/tokenize", body, idempotent=True)
        if not isinstance(found, dict) or not isinstance(found.get("tokens"), list):
            raise ServerFault(f"{self._wire.client.url}/tokenize says no tokens; is this llama.cpp's server?")
        return [int(token) for token in found["tokens"]]

    def begin(self, space: str) -> None:
        """Empty the slots; where the server doesn't allow that (no ``--slot-save-path``), replace what they hold."""
        for slot in range(self._slots):
            try:
                self._wire.slot_action(slot, "erase")
            except Refused:
                self._wire.complete([0], 1, cache=False, slot=slot)

    def ask(self, asks: Sequence[Ask]) -> list[Reply]:
        return [self._one(each) for each in asks]

    def _one(self, ask: Ask) -> Reply:
        wanted = ask.forced or (() if ask.scored is None else (ask.scored,))
        grammar = force(wanted, self._ends)
        said = self._wire.complete(
            ask.tokens,
            ask.new,
            cache=not ask.cold,
            slot=self._slots - 1 if ask.cold else WARM,
            grammar=grammar,
            # In a free answer an end is then not sampled, though it still tops the list of best tokens.
            fields={} if wanted else {"ignore_eos": True},
        )
        entries = _wanted(said, wanted) if wanted else said.entries
        return Reply(said.tokens, entries, said.cached)

    def whole(self, tokens: Sequence[int], first: int) -> list[Entry | None]:
        raise UsageError("llama.cpp's server gives no log-probabilities of prompt tokens; leave whole prompts out")


def _wanted(said: Completion, wanted: Sequence[int]) -> tuple[Entry | None, ...]:
    """The wanted tokens' entries. Where another token was sampled (a second kind of end), the wanted one is looked up among
    the best, and what follows has another prefix: nothing is known of it."""
    found: list[Entry | None] = []
    for token, sampled, entry in zip(wanted, said.tokens, said.entries, strict=False):
        found.append(entry if entry is None or token == sampled else (entry[1].get(token), entry[1]))
        if token != sampled:
            break
    return (*found, *[None] * (len(wanted) - len(found)))


def factory(options: SubjectOptions) -> ServerSubject:
    """What ``--subject llamacpp`` calls.

    Raises:
        UsageError: no ``--url``, or options that it doesn't have. EngineEnvironmentError: it can't be reached.
    """
    if options.url is None:
        raise UsageError("--subject llamacpp needs --url, such as http://127.0.0.1:8080")
    settings = ServerSettings.of(options, {"route": "native (/completion) or openai (/v1/completions)"})
    route = options.setting("route", "native")
    if route not in ("native", "openai"):
        raise UsageError(f"--subject-option route={route}: give {choices(('native', 'openai'))}")
    wire = Wire(Client(options.url, settings.limits), settings.top, "openai" if route == "openai" else "native")
    engine = LlamaCpp(wire, settings)
    facts = engine.facts()
    words = choose_words(settings.tokens, facts.model, facts.vocabulary, engine.tokenize)
    return ServerSubject(engine, settings, words)
