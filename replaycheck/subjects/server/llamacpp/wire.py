"""llama.cpp's HTTP server: what is asked and what its answers mean (0.7.0, builds 11434 to 11669; ``docs/llamacpp.md``).

Three routes give the same facts: ``/completion``, and in OpenAI's style ``/v1/completions`` and ``/v1/chat/completions``,
whose messages become the same ids by the server's template (see :mod:`.chat`). Log-probabilities are raw: before
temperature, bias, grammar and samplers. Prompt tokens have none on any route, so an answer of our choice is *forced*: a
grammar of token ids leaves one choice at each position, and what the model thought of it is reported as if it had been free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from replaycheck.compare.top import Entry
from replaycheck.subjects.server.completions import number
from replaycheck.subjects.server.http import Client, ServerFault

from .align import align
from .chat import Chat

__all__ = ["Completion", "Route", "Wire", "force"]

Route = Literal["native", "openai", "chat"]

PATHS: Mapping[Route, str] = MappingProxyType(
    {"native": "/completion", "openai": "/v1/completions", "chat": "/v1/chat/completions"}
)

Json = Mapping[str, Any]

_WHO = "llama.cpp"

NO_FIELDS: Json = MappingProxyType({})


@dataclass(frozen=True)
class Completion:
    """What the server said to one request.

    Attributes:
        tokens: generated ids. entries: of each, its log-probability and those of the best tokens; None: not said.
        cached: tokens of the prompt that it took from its cache. computed: those that it ran; the two sum to the prompt.
        drafted: tokens that speculation drafted; 0 without any, None if the route doesn't say.
        slot: that answered. truncated: whether it dropped tokens of the prompt, or shifted its context.
        stopped: ``limit``, ``eos``, ``word``, or as the route spells it.
    """

    tokens: tuple[int, ...]
    entries: tuple[Entry | None, ...]
    cached: int | None
    computed: int | None
    slot: int | None
    truncated: bool
    stopped: str
    drafted: int | None = None


def force(tokens: Sequence[int], ends: frozenset[int]) -> str | None:
    """A grammar that allows these tokens in this order, or None if none can.

    An end of generation can't be named in a grammar; after the last rule it alone is allowed, so it may come last.

    Args:
        ends: ids that end a generation.
    """
    named = tokens[:-1] if tokens and tokens[-1] in ends else tokens
    if not named or ends.intersection(named):
        return None
    return "root ::= " + " ".join(f"<[{token}]>" for token in named)


class Wire:
    """Requests to one server.

    Args:
        best: how many tokens' log-probabilities are asked for at each position. The last digits of a value depend on it, so
            it stays the same for all that is compared.
    """

    def __init__(self, client: Client, best: int, route: Route = "native") -> None:
        self.client = client
        self.best = best
        self.route = route
        self._chat = Chat(client)

    @property
    def native(self) -> Wire:
        """The same server by its own route, which takes any ids and names all."""
        return Wire(self.client, self.best)

    def users(self, prompt: Sequence[int]) -> tuple[int, ...]:
        """Where the server sees users' messages begin in a prompt: on the chat route alone."""
        return self._chat.messages(prompt).users if self.route == "chat" else ()

    def complete(
        self,
        prompt: Sequence[int],
        new: int,
        *,
        cache: bool = True,
        slot: int | None = None,
        grammar: str | None = None,
        fields: Json = NO_FIELDS,
    ) -> Completion:
        """Continue ``prompt`` greedily by ``new`` tokens; ``fields``: further fields of the request.

        Raises:
            ServerFault: no answer, or one without the fields that it must have.
        """
        body: dict[str, Any] = {"temperature": 0, "cache_prompt": cache, "return_tokens": True}
        body |= self._asked(prompt, new)
        body |= {} if slot is None else {"id_slot": slot}
        body |= {} if grammar is None else {"grammar": grammar}
        path = PATHS[self.route]
        answer = self.client.post(path, {**body, **fields})
        try:
            found = _native(answer) if self.route == "native" else _openai(answer)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ServerFault(
                f"POST {self.client.url}{path}: the answer lacks what llama.cpp's server says "
                f"({type(error).__name__}: {error}); is it one, and of build 11434 or later?"
            ) from None
        if self.route != "chat":
            self._of(prompt, found, path)
        return found

    def _of(self, prompt: Sequence[int], found: Completion, path: str) -> None:
        """What it read and had cached make up the prompt, or it answers another one. Chats are its own template's."""
        if found.computed is None or found.cached is None or found.truncated:
            return
        if found.computed + found.cached != len(prompt):
            raise ServerFault(
                f"POST {self.client.url}{path}: it counts {found.cached} cached and {found.computed} computed tokens, and "
                f"was sent {len(prompt)}: this is the answer to another prompt"
            )

    def _asked(self, prompt: Sequence[int], new: int) -> dict[str, Any]:
        if self.route == "chat":
            messages = list(self._chat.messages(prompt).messages)
            return {"messages": messages, "max_tokens": new, "logprobs": True, "top_logprobs": self.best}
        if self.route == "openai":
            return {"prompt": list(prompt), "max_tokens": new, "logprobs": self.best}
        return {"prompt": list(prompt), "n_predict": new, "n_probs": self.best}

    def props(self) -> Json:
        """Build, slots, default settings."""
        return _object(self.client.get("/props"), "/props")

    def model(self) -> Json:
        """The served model's name and its ``meta`` (n_vocab, n_params, size)."""
        listed = _object(self.client.get("/v1/models"), "/v1/models").get("data") or [{}]
        return _object(listed[0], "/v1/models")

    def slot_action(self, slot: int, action: Literal["save", "restore", "erase"], file: str | None = None) -> Json:
        """Save a slot to a file of the server, restore it, or empty it; needs ``--slot-save-path``."""
        body = None if file is None else {"filename": file}
        answer = self.client.post(f"/slots/{slot}", body or {}, params={"action": action})
        return _object(answer, f"/slots/{slot}")


def _object(answer: object, path: str) -> Json:
    if not isinstance(answer, dict):
        raise ServerFault(
            f"{path}: the answer is a {type(answer).__name__}, not an object; is this llama.cpp's server?"
        )
    return answer


def _native(answer: Json) -> Completion:
    timings = answer.get("timings") or {}
    tokens = tuple(int(token) for token in answer["tokens"])
    return Completion(
        tokens,
        align(tokens, [_entry(each) for each in answer.get("completion_probabilities") or ()]),
        _count(timings.get("cache_n")),
        _count(timings.get("prompt_n")),
        answer.get("id_slot"),
        bool(answer.get("truncated")),
        str(answer.get("stop_type")),
        _count(timings.get("draft_n", 0)),
    )


def _openai(answer: Json) -> Completion:
    """Ids stand inside the log-probabilities alone, so a token without an entry isn't seen at all."""
    choice = answer["choices"][0]
    found = [_entry(each) for each in (choice.get("logprobs") or {}).get("content") or ()]
    usage, timings = answer.get("usage") or {}, answer.get("timings") or {}
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", timings.get("cache_n"))
    return Completion(
        tuple(token for token, _ in found),
        tuple(entry for _, entry in found),
        _count(cached),
        _count(timings.get("prompt_n")),
        None,
        False,
        str(choice.get("finish_reason")),
    )


def _entry(said: Json) -> tuple[int, Entry | None]:
    """The token, and what was said of it. Accepted drafts come with 0.0 and no best tokens: nothing was said."""
    numbers = {int(each["id"]): number(each["logprob"], _WHO) for each in said.get("top_logprobs") or ()}
    best = {token: logprob for token, logprob in numbers.items() if logprob is not None}
    return int(said["id"]), (number(said["logprob"], _WHO), best) if best else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
