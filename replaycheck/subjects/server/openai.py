"""Any OpenAI-compatible endpoint that takes token ids and names them: a gateway before vLLM, or one that copied its API.

It may lack /version and a salt. An endpoint that names tokens by their text can't be held against a trace: two tokens may
share a text, and a scored token has none; the error says so.
"""

from __future__ import annotations

from dataclasses import replace

from replaycheck.errors import EngineEnvironmentError
from replaycheck.subjects.protocol import SubjectOptions

from .engine import Ask, Facts
from .http import Refused
from .identity import WatchedClient
from .settings import ServerSettings
from .subject import ServerSubject
from .vllm import VllmEngine, clients, tokenizer_of
from .words import choose_words

__all__ = ["OpenAIEngine", "factory"]

SAMPLE = tuple(2 + at % 97 for at in range(65))


class OpenAIEngine(VllmEngine):
    """vLLM's requests, with less expected of the answers."""

    name = "openai"

    def __init__(
        self,
        client: WatchedClient,
        settings: ServerSettings,
        model: str | None = None,
        cold: WatchedClient | None = None,
    ) -> None:
        super().__init__(client, settings, model, cold)
        self._watched = [each for each in (client, cold) if each is not None]

    def facts(self) -> Facts:
        """As vLLM's; prompts aren't scored whole, which only vLLM does. Another engine than before is an error."""
        found = super().facts()
        for each in self._watched:
            each.check(self._model)
        return replace(found, wholes=False, not_seen=(*found.not_seen, self._watched[0].not_seen()))

    def _version(self) -> str:
        try:
            return super()._version()
        except Refused:
            return "unknown"

    def check_cold(self) -> None:
        """See that a cold request is cold: the same prompt twice, each with a salt of its own.

        Raises:
            EngineEnvironmentError: the salt isn't obeyed, and there is no other way.
        """
        if self._cold is not None:
            return
        self.begin("cold")
        asks = [Ask(SAMPLE * 8, cold=True)]
        if any(self.ask(asks)[0].cached for _ in range(2)):
            raise EngineEnvironmentError(
                f"{self._client.url}: a request with a cache_salt of its own was answered from the cache, so nothing here "
                "can be computed cold; give --subject-option cold-url=URL of the same server with its prefix cache off"
            )


def factory(options: SubjectOptions) -> ServerSubject:
    """What ``--subject openai --url URL`` calls."""
    settings = ServerSettings.of(options)
    client, cold = clients(options, settings)
    engine = OpenAIEngine(client, settings, options.engine_model, cold)
    engine.learn()
    engine.check_cold()
    facts = engine.facts()
    words = choose_words(settings.tokens, facts.model, facts.vocabulary, tokenizer_of(engine))
    return ServerSubject(engine, settings, words)
