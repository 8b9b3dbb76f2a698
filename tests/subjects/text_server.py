"""The toy server as a plain completions endpoint: a text goes in, a text comes out, and nothing else is understood."""

from __future__ import annotations

from typing import Any

from tests.subjects.toy_model import CacheFaults
from tests.subjects.toy_server import ToyServer, WireFaults

FIELDS = {"model", "prompt", "max_tokens", "temperature", "logprobs"}
"""Anything else would be an extension."""


class TextServer(ToyServer):
    """Its tokenizer has a token a character; ids beyond ASCII have names.

    Args:
        numbers: whether log-probabilities are answered, if they are asked for.
    """

    def __init__(
        self,
        cache: CacheFaults | None = None,
        numbers: bool = True,
        wire: WireFaults | None = None,
        fingerprint: str = "",
    ) -> None:
        super().__init__(cache, wire, plain=True, salted=False, fingerprint=fingerprint)
        self.numbers = numbers

    def completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        """As OpenAI answers /v1/completions."""
        assert isinstance(asked["prompt"], str) and set(asked) <= FIELDS, asked
        top = asked.get("logprobs", 0)
        assert 0 <= top <= 5
        answer = super().completion(asked | {"prompt": [ord(char) for char in asked["prompt"]]})
        choice = answer["choices"][0]
        said = choice["logprobs"]
        names = [_name(each) for each in said["tokens"]]
        choice["text"] = "".join(names)
        best = [{_name(token): value for token, value in each.items()} for each in said["top_logprobs"]]
        choice["logprobs"] = said | {"tokens": names, "top_logprobs": best} if top and self.numbers else None
        return answer


def _name(token: str) -> str:
    number = int(token.removeprefix("token_id:"))
    return chr(number) if number < 128 else f"<{number}>"


def said(*tokens: tuple[str, float, dict[str, float]], cached: int = 0) -> dict[str, Any]:
    """An answer by hand, to a prompt of 9 tokens: of each token its text, its log-probability, and the best ones."""
    names, own, best = (list(each) for each in zip(*tokens, strict=True))
    logprobs = {"tokens": names, "token_logprobs": own, "top_logprobs": best}
    usage = {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": cached}}
    return {"choices": [{"index": 0, "text": "".join(names), "logprobs": logprobs}], "usage": usage}
