"""vLLM in this process: cold, split, warm and batched arms, with steps that are steered and a pool that is looked into.

A prefill is cut by setting the scheduler's token budget before each step to the distance to the next cut. Written for the V1
engine of 0.24.0 to 0.32.0: ``LLM.llm_engine``, its in-process core, ``scheduler.max_num_scheduled_tokens``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from replaycheck.compare.top import Entry
from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.policy import VllmPolicy
from replaycheck.subjects.protocol import SubjectOptions

from .engine import Ask, Facts, Reply
from .http import ServerFault
from .learn import Learnt, learn
from .settings import ServerSettings
from .subject import ServerSubject

__all__ = ["MORE", "OfflineEngine", "factory"]

MORE: Mapping[str, str] = {
    "dtype": "of the model: auto, float32, bfloat16, float16",
    "max-batched": "tokens of a step without cuts, vLLM's max_num_batched_tokens",
    "memory": "share of the GPU's memory, vLLM's gpu_memory_utilization",
}

VARIABLES = {
    # One process, so that steps can be steered; no sampler that compiles itself; nothing is fetched.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}

DTYPES = {"torch.float32": PoolDtype.FP32, "torch.bfloat16": PoolDtype.BF16, "torch.float16": PoolDtype.FP16}

SMALL = 1024
"""Up to so many ids the whole vocabulary is asked for, so that no scored token is missing."""


class OfflineEngine:
    """One engine.

    Args:
        llm: a ``vllm.LLM`` in this process. version: of the package.
    """

    def __init__(self, llm: Any, version: str, model: str, settings: ServerSettings) -> None:
        self._llm, self._version, self._model, self._settings = llm, version, model, settings
        self._engine = llm.llm_engine
        self._scheduler = self._engine.engine_core.engine_core.scheduler
        self._budget = self._scheduler.max_num_scheduled_tokens
        self._learnt = Learnt(reports=True, block=settings.block)
        self._asked = 0
        self._config = self._engine.vllm_config.model_config
        self._vocabulary = int(self._config.get_vocab_size())

    def learn(self) -> None:
        """Its block, by asking: what the configuration says isn't always what the cache does."""
        self._learnt = learn(self, self._settings.block, int(self._config.max_model_len))

    def facts(self) -> Facts:
        """From the engine's own objects."""
        pool = self._pool()
        block = self._learnt.block
        return Facts(
            name="vllm in process",
            version=self._version,
            model=self._model,
            vocabulary=self._vocabulary,
            length=int(self._config.max_model_len),
            policy=VllmPolicy(cache="vllm-align", block=block) if block else None,
            pool=pool,
            asked=self._settings.pool,
            hits=self._learnt.reports,
            cuts=True,
            together=True,
            settings={"dtype": str(self._config.dtype), "batched": str(self._budget)},
            not_seen=self._learnt.not_seen,
        )

    def _pool(self) -> PoolDtype | None:
        """The dtype of the recurrent states that lie there, whatever was asked for. None: no recurrent layer was found."""
        context = self._engine.vllm_config.compilation_config.static_forward_context
        for layer in context.values():
            if hasattr(layer, "get_state_shape"):
                tensors = list(_tensors(layer.kv_cache))
                if tensors:
                    return DTYPES.get(str(tensors[-1].dtype))
        return None

    def begin(self, space: str) -> None:
        """An empty cache."""
        if self._llm.reset_prefix_cache() is False:
            raise ServerFault("vllm: its prefix cache can't be reset; is a request still running?")

    def ask(self, asks: Sequence[Ask]) -> list[Reply]:
        """One alone may be cut; several run as one batch."""
        if any(ask.cold for ask in asks):
            self.begin("cold")
        names = [self._add(ask, salted=ask.cold and len(asks) > 1) for ask in asks]
        done: dict[str, Any] = {}
        while len(done) < len(names):
            self._steer(asks[0].cuts if len(asks) == 1 else ())
            try:
                finished = self._engine.step()
            except (RuntimeError, ValueError, AssertionError) as error:
                raise ServerFault(f"vllm: a step failed ({type(error).__name__}: {error})") from None
            done |= {output.request_id: output for output in finished if output.finished}
        self._scheduler.max_num_scheduled_tokens = self._budget
        return [_reply(done[name], ask) for name, ask in zip(names, asks, strict=True)]

    def _add(self, ask: Ask, salted: bool) -> str:
        """``salted``: it hits nothing of those beside it, with whom it may share a prefix."""
        self._asked += 1
        name = f"replaycheck-{self._asked}"
        prompt: dict[str, object] = {"prompt_token_ids": list(ask.tokens)}
        params = import_module("vllm").SamplingParams(
            max_tokens=ask.new,
            temperature=0.0,
            ignore_eos=True,
            detokenize=False,
            logprobs=self._vocabulary if self._vocabulary <= SMALL else self._settings.top,
        )
        self._engine.add_request(name, prompt | ({"cache_salt": name} if salted else {}), params)
        return name

    def _steer(self, cuts: Sequence[int]) -> None:
        """The budget of the next step: up to the next cut, or the engine's own."""
        requests = list(self._scheduler.requests.values())
        done = requests[0].num_computed_tokens if requests else 0
        ahead = next((cut for cut in cuts if cut > done), None)
        self._scheduler.max_num_scheduled_tokens = self._budget if ahead is None else min(self._budget, ahead - done)

    def whole(self, tokens: Sequence[int], first: int) -> list[Entry | None]:
        """Not used: a budget is the better control here."""
        raise NotImplementedError


def _tensors(kept: Any) -> Iterator[Any]:
    """The tensors in a layer's cache, which is a tuple, or one a virtual engine."""
    if isinstance(kept, list | tuple):
        for each in kept:
            yield from _tensors(each)
    elif getattr(kept, "numel", None) and kept.numel():
        yield kept


def _reply(output: Any, ask: Ask) -> Reply:
    made = output.outputs[0]
    tokens = tuple(int(token) for token in made.token_ids)
    entries: list[Entry | None] = []
    for at, token in enumerate(tokens):
        said = made.logprobs[at] if made.logprobs and at < len(made.logprobs) else {}
        best = {int(each): float(value.logprob) for each, value in said.items()}
        wanted = ask.scored if ask.scored is not None and at == 0 else token
        entries.append((best.get(wanted), best) if best else None)
    return Reply(tokens, tuple(entries), output.num_cached_tokens)


def start(options: SubjectOptions, settings: ServerSettings) -> OfflineEngine:
    """Load a local folder. Raises :class:`EngineEnvironmentError` without vLLM."""
    if options.model is None:
        raise UsageError("--subject vllm-offline needs --model DIR, the folder of a checkpoint")
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
    try:
        vllm = import_module("vllm")
    except ImportError as error:
        raise EngineEnvironmentError(f"vllm can't be imported ({error}); install it into this environment") from None
    wanted = {
        "dtype": options.setting("dtype", "auto"),
        "max_num_batched_tokens": options.setting("max-batched", "8192"),
    }
    llm = _llm(vllm, Path(options.model), settings, options, wanted)
    return OfflineEngine(llm, str(vllm.__version__), Path(options.model).name, settings)


def _llm(
    vllm: Any, folder: Path, settings: ServerSettings, options: SubjectOptions, wanted: Mapping[str, str | None]
) -> Any:
    asked = {PoolDtype.FP32: "float32", PoolDtype.BF16: "bfloat16", PoolDtype.FP16: "float16"}
    more = {"mamba_ssm_cache_dtype": asked[settings.pool]} if settings.pool else {}
    if settings.length:
        more |= {"max_model_len": settings.length}  # type: ignore[dict-item]
    try:
        return vllm.LLM(
            model=str(folder),
            skip_tokenizer_init=True,
            enforce_eager=True,
            enable_prefix_caching=True,
            async_scheduling=False,
            max_logprobs=-1,
            seed=0,
            dtype=wanted["dtype"],
            max_num_batched_tokens=int(wanted["max_num_batched_tokens"] or 8192),
            gpu_memory_utilization=float(options.setting("memory", "0.3") or 0.3),
            **more,
        )
    except (RuntimeError, ValueError, OSError) as error:
        raise EngineEnvironmentError(f"vllm can't load {folder}: {type(error).__name__}: {error}") from None


def factory(options: SubjectOptions) -> ServerSubject:
    """What ``--subject vllm-offline --model DIR`` calls."""
    settings = ServerSettings.of(options, MORE)
    engine = start(options, settings)
    engine.learn()
    return ServerSubject(engine, settings)
