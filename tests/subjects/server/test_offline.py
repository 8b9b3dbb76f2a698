"""vLLM in process, by an engine that behaves as its own does: steps are steered, cuts are where warm's were."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.schema.arm import PoolDtype
from replaycheck.subjects.protocol import SubjectOptions
from replaycheck.subjects.server.engine import Ask
from replaycheck.subjects.server.offline import OfflineEngine, start
from replaycheck.subjects.server.settings import ServerSettings
from replaycheck.subjects.server.subject import ServerSubject
from tests.subjects.toy_model import VOCABULARY, ToyEngine


@dataclass
class Request:
    name: str
    tokens: tuple[int, ...]
    num_computed_tokens: int = 0
    cached: int = 0
    salt: str = ""
    pieces: list[int] = field(default_factory=list)


class FakeScheduler:
    def __init__(self) -> None:
        self.max_num_scheduled_tokens = 8192
        self.requests: dict[str, Request] = {}


class FakeEngine:
    """One engine of vLLM's, with the toy's state and a scheduler that obeys its budget."""

    def __init__(self, block: int = 16) -> None:
        self.toy, self.scheduler = ToyEngine(block), FakeScheduler()
        self.engine_core = SimpleNamespace(engine_core=SimpleNamespace(scheduler=self.scheduler))
        self.done: list[Request] = []
        self.most = 0
        config = SimpleNamespace(get_vocab_size=lambda: VOCABULARY, max_model_len=4096, dtype="torch.bfloat16")
        state = SimpleNamespace(dtype="torch.float32", numel=lambda: 8)
        layer = SimpleNamespace(
            get_state_shape=None, kv_cache=[(SimpleNamespace(dtype="torch.bfloat16", numel=lambda: 8), state)]
        )
        self.vllm_config = SimpleNamespace(
            model_config=config,
            compilation_config=SimpleNamespace(
                static_forward_context={"attn": SimpleNamespace(kv_cache=[]), "mamba": layer}
            ),
        )

    def add_request(self, name: str, prompt: dict[str, Any], params: Any) -> None:
        tokens, salt = tuple(prompt["prompt_token_ids"]), prompt.get("cache_salt", "")
        cached = self.toy.cache.hit(salt, tokens)[0]
        self.scheduler.requests[name] = Request(name, tokens, cached, cached, salt)
        self.most = max(self.most, len(self.scheduler.requests))
        # What is scheduled in one step is stored as it is scheduled, as vLLM does with blocks.
        self.toy.prompt(salt, tokens)

    def step(self) -> list[Any]:
        finished = []
        for request in list(self.scheduler.requests.values()):
            size = min(self.scheduler.max_num_scheduled_tokens, len(request.tokens) - request.num_computed_tokens)
            assert size > 0
            request.num_computed_tokens += size
            request.pieces.append(request.num_computed_tokens)
            if request.num_computed_tokens == len(request.tokens):
                finished.append(self._finished(request))
        return finished

    def _finished(self, request: Request) -> Any:
        del self.scheduler.requests[request.name]
        self.done.append(request)
        _, state = self.toy.prompt(request.salt, request.tokens)
        logprobs = self.toy.model.logprobs(state)
        said = {token: SimpleNamespace(logprob=float(value)) for token, value in enumerate(logprobs)}
        made = SimpleNamespace(token_ids=[int(logprobs.argmax())], logprobs=[said])
        return SimpleNamespace(request_id=request.name, finished=True, outputs=[made], num_cached_tokens=request.cached)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> OfflineEngine:
    vllm = ModuleType("vllm")
    vllm.SamplingParams = SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "vllm", vllm)
    fake = FakeEngine()
    llm = SimpleNamespace(llm_engine=fake, reset_prefix_cache=lambda: fake.toy.cache.states.clear() or True)
    made = OfflineEngine(llm, "0.24.0", "tiny", ServerSettings(pool=PoolDtype.BF16))
    made.fake = fake  # type: ignore[attr-defined]
    return made


def test_prefill_is_cut_where_it_is_asked(engine: OfflineEngine) -> None:
    engine.ask([Ask(tuple(range(100)), cold=True, cuts=(32, 48, 80))])
    assert engine.fake.done[-1].pieces == [32, 48, 80, 100]  # type: ignore[attr-defined]
    assert engine.fake.scheduler.max_num_scheduled_tokens == 8192  # type: ignore[attr-defined]


def test_hits_and_the_scored_token_are_read(engine: OfflineEngine) -> None:
    prompt = tuple(range(100))
    engine.begin("x")
    assert engine.ask([Ask(prompt, scored=5)])[0].cached == 0
    reply = engine.ask([Ask(prompt, scored=5)])[0]
    assert reply.cached == 96
    entry = reply.entries[0]
    assert entry is not None and entry[0] == entry[1][5]


def test_cold_requests_beside_others_hit_nothing_of_theirs(engine: OfflineEngine) -> None:
    prompt = tuple(range(100))
    cold = [Ask(prompt[:length], cold=True) for length in (98, 99, 100)]
    assert [reply.cached for reply in engine.ask(cold)] == [0, 0, 0]
    assert engine.fake.most == 3  # type: ignore[attr-defined]
    engine.begin("warm")
    assert [reply.cached for reply in engine.ask([Ask(prompt), Ask(prompt)])] == [0, 96]


def test_the_pool_is_looked_into_and_another_dtype_than_asked_is_said(engine: OfflineEngine) -> None:
    engine.learn()
    subject = ServerSubject(engine, ServerSettings())
    assert engine.facts().pool is PoolDtype.FP32
    found = subject.describe()
    assert (found.asked, found.pool) == (PoolDtype.BF16, PoolDtype.FP32)  # the run's finding RC906
    assert found.policy.block == 16  # type: ignore[union-attr]


def test_without_vllm_or_a_folder_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="needs --model"):
        start(SubjectOptions(), ServerSettings())
    monkeypatch.setitem(__import__("sys").modules, "vllm", None)
    from pathlib import Path

    with pytest.raises(EngineEnvironmentError, match="vllm can't be imported"):
        start(SubjectOptions(model=Path("x")), ServerSettings())
