"""A plain OpenAI completions endpoint: text in, text out; maybe log-probabilities of token texts, maybe a count of hits.

It takes no ids, no salt and no reset, so no token of our choice can be scored behind a hit. Each turn's prompt goes as text,
with the trace's own answers before it, and each arm continues it greedily. As long as the cold answer and the other arm's
are alike, both have the same prefix, so these tokens and the first one that differs are compared; what follows isn't. Chat
endpoints put a template around the text that we can't see: they are out of scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from replaycheck.compare.record import ArmRecording
from replaycheck.errors import UsageError
from replaycheck.schedule.steps import RequestPlan, Schedule
from replaycheck.schema.arm import Compiler
from replaycheck.schema.gaps import StateDtype
from replaycheck.schema.policy import ServerPolicy
from replaycheck.subjects.protocol import Description, Said, SubjectOptions
from replaycheck.traces import vocabulary

from .http import Client, Refused, ServerFault
from .identity import WatchedClient
from .plain_answer import IDS, Answer, Key, read, recording
from .settings import ServerSettings
from .vllm import clients

__all__ = ["PlainSubject", "factory"]

TOP = 5
"""Best tokens that OpenAI's completions give at most."""

Answers = Mapping[Key, Answer]


class PlainSubject:
    """One endpoint.

    Args:
        cold: another server, with its cache off, that answers the cold requests; None: only prompts of which the endpoint
            itself says that nothing was cached are cold, and the same prompt again is warm.
        score: answer tokens of a turn at most; None: as many as the trace's answer has.
    """

    def __init__(
        self,
        client: WatchedClient,
        model: str,
        settings: ServerSettings,
        cold: WatchedClient | None = None,
        score: int | None = None,
    ) -> None:
        self._client, self._cold, self._model, self._settings = client, cold, model, settings
        self._score = score
        # The first cold answer of each turn, by group: what a second cold run and the warm arm are held against.
        self._first: dict[str, dict[Key, Answer]] = {}
        self._top = TOP if settings.top < 0 else min(settings.top, TOP)
        self._numbers = self._says_numbers()
        self._check()

    def _check(self) -> None:
        """Raises :class:`ServerFault` if it isn't the engine that it was at the first call."""
        for each in (self._client, self._cold):
            if each is not None:
                each.check(self._model)

    def _says_numbers(self) -> bool:
        """Whether log-probabilities come with an answer; an endpoint may refuse the field."""
        try:
            return self._ask(self._client, "The river rose twice, and the", 4, numbers=True).numbers
        except Refused as error:
            if error.status not in (400, 422):
                raise
            return False

    def describe(self) -> Description:
        """Who it is: little more than its model's name."""
        who = (
            f"{self._model}\n{self._numbers}\n{self._settings.pinned}\n{self._cold is None}\n{self._top}\n{self._score}"
        )
        return Description(
            name=f"openai-text {self._model}",
            digest=blake2b(who.encode(), digest_size=16).hexdigest(),
            vocabulary=IDS,
            versions={},
            said=Said.TOP,
            semantics=f"log-probabilities of up to {self._top} best token texts, as the endpoint says them"
            if self._numbers
            else "texts alone",
            forced=False,
            policy=ServerPolicy(cache="server"),
            pinned=self._settings.pinned,
            asked=self._settings.pool,
            not_seen=tuple(self._not_seen()),
        )

    def _not_seen(self) -> list[str]:
        found = [
            "token ids (tokens are known by their texts, and two that share one are taken for one), states, logits, so no "
            "KL and no equal bits",
            "the dtype of the recurrent states"
            if self._settings.pool is None
            else str(StateDtype(asked=self._settings.pool, in_use=None)),
            self._client.not_seen(),
            "positions after the first token that differs in a turn: each arm says its own answer, and is compared with the "
            "cold one up to there; a token that isn't among the best is taken to be as likely as the least of them, so that "
            "a difference is at least as large as said",
        ]
        if not self._numbers:
            found.append(
                "log-probabilities and margins: texts alone are compared, one character a position, so a difference has no "
                "size and equal texts are weak evidence; the hits in result.json count the same and other texts"
            )
        if self._cold is None:
            found.append(
                "later turns: without a salt only a prompt of which the endpoint says that 0 tokens were cached is cold, "
                "and the same prompt again is warm; nor is anything cold twice, so noise (F_run) isn't measured; give "
                "--subject-option cold-url=URL of the same server with its cache off"
            )
        if not self._settings.pinned:
            found.append(
                "it can't be made to cut its prefill where a hit cuts it, so there is no split arm: the grid effect "
                "(legitimate) and the state effect aren't told apart"
            )
        return found

    def replay(self, schedules: Sequence[Schedule]) -> list[ArmRecording]:
        """Group by group, cold before warm. Another engine in mid-run is an error."""
        found: dict[int, ArmRecording] = {}
        for group in dict.fromkeys(schedule.group for schedule in schedules):
            mine = [number for number, schedule in enumerate(schedules) if schedule.group == group]
            mine.sort(key=lambda number: schedules[number].arm.compiler is Compiler.WARM)
            answers = {number: self._answers(schedules[number]) for number in mine}
            for number in mine:
                found[number] = recording(
                    schedules[number], answers[number], self._first[group], list(answers.values())
                )
            self._check()
        return [found[number] for number in range(len(schedules))]

    def _answers(self, schedule: Schedule) -> dict[Key, Answer]:
        """Of each turn that the arm can answer. The first cold ones are kept."""
        warm = schedule.arm.compiler is Compiler.WARM
        first = self._first.setdefault(schedule.group, {})
        found: dict[Key, Answer] = {}
        for plan in schedule.requests:
            key = (plan.trace, plan.branch, plan.turn)
            if warm and key not in first:
                continue
            answer = self._turn(plan, warm)
            if warm or self._is_cold(answer):
                found[key] = answer
                _refuse_another_model(first.setdefault(key, answer), answer)
        return found

    def _is_cold(self, answer: Answer) -> bool:
        if self._cold is None:
            return answer.cached == 0
        if answer.cached:
            raise ServerFault(
                f"{self._cold.url}: {answer.cached} tokens came from its cache though none was to be used, so nothing is "
                "cold; switch the prefix cache of the cold-url server off"
            )
        return True

    def _turn(self, plan: RequestPlan, warm: bool) -> Answer:
        new = plan.end - plan.prompt
        client = self._client if warm or self._cold is None else self._cold
        text = vocabulary.decode(plan.tokens[1 : plan.prompt])
        return self._ask(client, text, min(new, self._score or new), self._numbers)

    def _ask(self, client: Client, text: str, new: int, numbers: bool) -> Answer:
        sent: dict[str, object] = {"model": self._model, "prompt": text, "max_tokens": new, "temperature": 0}
        return read(
            client.post("/v1/completions", sent | ({"logprobs": self._top} if numbers else {})), new, client.url
        )


def _refuse_another_model(first: Answer, answer: Answer) -> None:
    if first.prompt != answer.prompt:
        raise ServerFault(
            f"one prompt was counted as {first.prompt} tokens and as {answer.prompt}: two models, or two tokenizers; give a "
            "cold-url of the same model"
        )


def factory(options: SubjectOptions) -> PlainSubject:
    """What ``--subject openai-text --url URL`` calls."""
    settings = ServerSettings.of(options)
    client, cold = clients(options, settings)
    model = options.engine_model or _only_model(client)
    return PlainSubject(client, model, settings, cold, settings.score if options.setting("score") else None)


def _only_model(client: Client) -> str:
    listed: Any = client.get("/v1/models")
    data = listed.get("data") if isinstance(listed, dict) else None
    names = [str(each["id"]) for each in data or () if isinstance(each, dict) and "id" in each]
    if len(names) != 1:
        raise UsageError(f"--engine-model: the server has {', '.join(names) or 'no list of models'}; name one")
    return names[0]
