"""SGLang's verify and copy back on the tensors of a world, and how far its states lie from ours."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from replaycheck.schema.bench import Figure
from replaycheck_kernels.providers.sglang_windows import SglangWindows

from . import state_calls as ours
from .clock import Call
from .state_vllm import difference
from .state_world import World

NATIVE, BACK = "sglang/native-verify", "sglang/copy-back"


@dataclass(frozen=True)
class Copied:
    """calls: its verify. scratch: [L, R, Q, H, V, K], which that fills with the state after every position."""

    engine: SglangWindows
    calls: dict[str, Call]
    scratch: Tensor

    @staticmethod
    def verify(engine: SglangWindows, world: World) -> Copied:
        call, scratch = engine.native_verify(world.windows, world.pool, world.slots)
        return Copied(engine, {NATIVE: call}, scratch)

    def back(self, world: World) -> dict[str, Call]:
        """Copies to the world's pool, as our own call does."""
        return {BACK: self.engine.copy_back(world.pool, self.scratch, world.slots, world.accepted)}

    def agreement(self, wide: Tensor, what: str) -> list[Figure]:
        """Of the last layer's states after every position; both verifies have run on the same inputs."""
        rows, width = self.scratch.shape[1:3]
        mine = wide[-1, 1 : 1 + rows * width].unflatten(0, (rows, width))
        return [difference(ours.NATIVE, f"{what}: states, from {NATIVE}", mine, self.scratch[-1])]
