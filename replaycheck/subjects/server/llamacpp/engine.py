"""The adapter: llama.cpp's server as an engine that the one server subject drives.

Cold runs with ``cache_prompt: false`` on the last slot, warm on the first: with two slots or more a cold request leaves
the text and the checkpoints under test alone (with one it replaces them). A hit is what ``timings.cache_n`` says; which one
is expected an integer model of the server's cache says. An answer is forced and decoded in one request: a chain of requests
of one token each would store a checkpoint for every token, and push out those under test.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from replaycheck.compare.top import Entry
from replaycheck.errors import UsageError
from replaycheck.subjects.server.engine import Ask, Facts, Reply
from replaycheck.subjects.server.http import Refused, ServerFault
from replaycheck.subjects.server.settings import ServerSettings

from .learn import Learnt
from .shadow import Taken
from .split import ADVICE, replay
from .why import explain
from .wire import Completion, Wire, force

__all__ = ["LlamaCpp"]

WARM = 0
"""The slot of warm requests."""

UNKNOWN = (-1,)
"""Cuts of a state that came about otherwise than expected: it can't be built again."""

_NOT_SEEN = (
    "logits of the whole vocabulary (best=20 by default), recurrent states and checkpoints",
    "its host cache (--cache-ram) can't be emptied over HTTP, so a warm arm may hit text of an earlier one; start it with "
    "--slot-save-path DIR and --cache-ram 0 where hits of one arm alone are wanted",
)

_NO_SPLIT = (
    "the grid effect (legitimate) and the state effect aren't told apart; give --subject-option split-url=URL of "
    + ADVICE
)

_NO_STATE = (
    "the model has no recurrent state; keys and values can be cut anywhere, inside a batch too, which can't be repeated"
)


class LlamaCpp:
    """See :class:`replaycheck.subjects.server.engine.Engine`.

    Args:
        learnt: what decides the server's hits. split: to a second server, which plays what this one computed.
        servers: that were started for it and live as long.
    """

    def __init__(
        self, wire: Wire, settings: ServerSettings, learnt: Learnt, split: Wire | None = None, servers: object = None
    ) -> None:
        self._wire, self._settings, self._learnt, self._split = wire, settings, learnt, split
        self._servers = servers
        self._lost = False

    def facts(self) -> Facts:
        props, model = self._wire.props(), self._wire.model()
        meta = model.get("meta") or {}
        vocabulary = self._settings.vocabulary or meta.get("n_vocab")
        if not isinstance(vocabulary, int):
            raise ServerFault(f"{self._wire.client.url}/v1/models says no n_vocab; is this llama.cpp's server?")
        length = (props.get("default_generation_settings") or {}).get("n_ctx")
        recurrent = self._learnt.shadow.rules.recurrent
        return Facts(
            name="llama.cpp",
            version=str(props.get("build_info")),
            model=str(model.get("id")).rpartition("/")[2],
            vocabulary=vocabulary,
            length=self._settings.length or (length if isinstance(length, int) else None),
            asked=self._settings.pool,
            answers=True,
            cuts=recurrent and self._split is not None,
            no_split=_NO_SPLIT if recurrent else _NO_STATE,
            settings={
                "slots": str(props.get("total_slots")),
                "route": self._wire.route,
                **{key: str(meta[key]) for key in ("n_params", "size") if key in meta},
            },
            not_seen=(*_NOT_SEEN, *self._learnt.not_seen),
        )

    @cached_property
    def _slots(self) -> int:
        return self._learnt.shadow.rules.slots

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
        self._lost = False
        for slot in range(self._slots):
            try:
                self._wire.slot_action(slot, "erase")
                self._learnt.shadow.erase(slot)
            except Refused:
                said = self._wire.native.complete([0], 1, cache=False, slot=slot)
                self._learnt.shadow.ask((0,), said.tokens, cached=False, slot=slot)

    def ask(self, asks: Sequence[Ask]) -> list[Reply]:
        return [self._one(each) for each in asks]

    def _one(self, ask: Ask) -> Reply:
        wanted = ask.forced or (() if ask.scored is None else (ask.scored,))
        if ask.cuts:
            return self._cut(ask, wanted)
        slot = self._slots - 1 if ask.cold else WARM
        said = self._wire.complete(
            ask.tokens,
            ask.new,
            cache=not ask.cold,
            slot=slot,
            grammar=force(wanted, self._ends),
            # In a free answer an end is then not sampled, though it still tops the list of best tokens.
            fields={} if wanted else {"ignore_eos": True},
        )
        users = self._wire.users(ask.tokens)
        taken = self._learnt.shadow.ask(ask.tokens, said.tokens, cached=not ask.cold, slot=slot, users=users)
        entries = _wanted(said, wanted) if wanted else said.entries
        return Reply(said.tokens, entries, said.cached) if ask.cold else self._warm(said, entries, taken)

    def _warm(self, said: Completion, entries: tuple[Entry | None, ...], taken: Taken) -> Reply:
        """With what was expected. From a hit on that wasn't, nothing is known of how the slot's states came about."""
        self._lost = self._lost or said.cached != taken.hit
        cuts = UNKNOWN if self._lost else taken.cuts
        return Reply(said.tokens, entries, said.cached, taken.hit, explain(taken, said.cached), cuts)

    def _cut(self, ask: Ask, wanted: tuple[int, ...]) -> Reply:
        """From the second server, if it is known where; else nothing is said."""
        if ask.cuts == UNKNOWN or self._split is None:
            return Reply(wanted, (None,) * ask.new, 0)
        said = replay(self._split, ask.tokens, wanted, ask.cuts, self._ends)
        return Reply(said.tokens, _wanted(said, wanted), 0)

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
