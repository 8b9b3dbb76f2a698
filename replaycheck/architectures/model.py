"""A tiny random model of an architecture, called in one way whatever its family calls its cache."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from replaycheck.subjects.transformers.load import CACHE_NAMES, DTYPES

from .discover import library
from .precision import Double, double, running_in_double
from .tiny import tiny_config

__all__ = ["Answer", "Model", "build"]

#: One-dimensional weights (norms, biases, decays) start at ones, zeros or a fixed ramp, where leaving one out or applying it
#: twice may change nothing. 0.1 is the spread of the other weights.
SPREAD = 0.1


@dataclass(frozen=True)
class Answer:
    """logits: [B, T, vocabulary] as computed. cache: what the library gave back."""

    logits: Tensor
    cache: Any


@dataclass(frozen=True)
class Model:
    """A module and how it is called."""

    name: str
    module: Any
    oracle: bool = False
    stable: bool = True

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Arguments of its forward."""
        return frozenset(inspect.signature(self.module.forward).parameters)

    @cached_property
    def cache_name(self) -> str:
        return next(name for name in CACHE_NAMES if name in self.parameters)

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.module.parameters())

    @property
    def config(self) -> Any:
        return self.module.config

    def __call__(self, tokens: Tensor, cache: Any = None) -> Answer:
        """Continue ``cache`` (None: begin) with ``tokens`` [B, T]."""
        return self._run({"input_ids": tokens, "use_cache": True} | self._cached(cache))

    def padded(self, tokens: Tensor, cache: Any, mask: Tensor) -> Answer:
        """The same with padding; ``mask`` [B, whole length] covers what is in the cache, too.

        The library itself turns the mask into what its forward wants, as it does in its own generation.
        """
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        given = self._cached(cache) | {"attention_mask": mask, "use_cache": True}
        if "position_ids" in self.parameters:
            given["position_ids"] = positions
        prefill = cache is None or tokens.shape[1] > 1
        prepared = self.module.prepare_inputs_for_generation(tokens, is_first_iteration=prefill, **given)
        return self._run(prepared | ({"logits_to_keep": 0} if "logits_to_keep" in self.parameters else {}))

    def _cached(self, cache: Any) -> dict[str, Any]:
        """The argument that continues a cache. A family that gives none back gets one of ours, as in its generation."""
        if cache is None and not self.gives_back:
            cache = library().DynamicCache(config=self.config)
        return {} if cache is None else {self.cache_name: cache}

    @cached_property
    def gives_back(self) -> bool:
        """Whether the forward's output holds the cache."""
        output = copy.deepcopy(self.module)(torch.ones(1, 2, dtype=torch.long), use_cache=True)
        return self.cache_name in output

    def _run(self, given: dict[str, Any]) -> Answer:
        """
        Raises:
            RuntimeError: the logits aren't those of the tokens.
        """
        output, tokens = self.module(**given), given["input_ids"]
        if output.logits.shape[:2] != tokens.shape:
            raise RuntimeError(f"logits {list(output.logits.shape)} for tokens {list(tokens.shape)}")
        return Answer(output.logits, output[self.cache_name] if self.gives_back else given[self.cache_name])

    def uncached(self, tokens: Tensor) -> Tensor:
        """Logits [B, T, vocabulary] of the whole sequences without a cache."""
        logits: Tensor = self.module(tokens, use_cache=False).logits
        return logits

    def fresh(self) -> Model:
        """The same with a module of its own, for a family that keeps a state in its module."""
        return replace(self, module=copy.deepcopy(self.module))

    def in_double(self, stable: bool = True) -> Model:
        """The same weights in float64."""
        return replace(self, module=double(self.module), oracle=True, stable=stable)

    @contextmanager
    def computing(self) -> Iterator[Double]:
        """Inside, nothing is differentiated, and an oracle computes in float64; its top-k choices are in what this gives."""
        inside = running_in_double(self.stable) if self.oracle else nullcontext(Double())
        with torch.no_grad(), inside as mode:
            yield mode


def build(name: str, dtype: str = "fp32", seed: int = 0) -> Model:
    """A tiny model with random weights, eager attention, in evaluation mode."""
    torch.manual_seed(seed)
    made = {"attn_implementation": "eager", "experts_implementation": "eager"}
    module = library().AutoModelForCausalLM.from_config(tiny_config(name), **made)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter += SPREAD * torch.randn_like(parameter)
    return Model(name, module.to(DTYPES[dtype]).eval())
