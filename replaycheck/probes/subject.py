"""A kernel under probe, and the calls that are made of it: packs of sequences, parts of them, in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from math import hypot

import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource
from replaycheck_kernels.error_model import Predicted, predict_for
from replaycheck_kernels.oracle import ORACLE_KERNEL
from replaycheck_kernels.precision import round_to
from replaycheck_kernels.providers import Decay, ModelKind, Provider, ProviderKernel
from replaycheck_kernels.recipe import Recipe, preset

from .elementwise import elementwise
from .kernels import Regime, regimes
from .recording import Recording

TOKENS = ("q", "k", "v", "a", "b")
LOWER_BOUND = -5.0

Learnt = Sequence[tuple[Tensor, Tensor]]
Decays = tuple[Regime, float | None]
"""A regime, and the lower bound of its decay if it has one."""


@dataclass(frozen=True)
class Sizes:
    """Shapes of the probes: heads, K and V; lengths of the usual pack and of its longest sequence; batches.

    Attributes:
        boundaries: chunks of the sequence that is restored at every one of them.
        each: tokens of each sequence of a batch.
        prefixes: lengths that are given more and more tokens after them.
        regimes: decays of properties other than ``error``, by the beginning of their names; () means all.
    """

    heads: int
    key: int
    value: int
    lengths: tuple[int, ...]
    boundaries: int
    batches: tuple[int, ...]
    each: int
    prefixes: tuple[int, ...] = (1, 2, 5, 17, 33, 64)
    regimes: tuple[str, ...] = ("kimi", "mild", "bound")


SMALL = Sizes(2, 32, 24, (70, 1, 64, 33), 3, (1, 2, 8, 64), 5)
"""On the CPU. K ≠ V; lengths round the chunk of 64."""
INTERPRETED = Sizes(1, 32, 32, (66, 5), 2, (1, 2), 5, (2, 18), ("mild",))
"""In Triton's interpreter, where a call of a chunk kernel takes about a second. Mild decays keep what a restore loses."""
DEVICE = Sizes(4, 128, 128, (130, 1, 64, 63, 65), 4, (1, 2, 8, 64), 70, regimes=("mild", "bound", "recorded"))
"""On a GPU: an engine's widths, lengths round one chunk and two, a batch of 64 with more than 256 blocks. ``error`` takes
all decays; a kernel is compared with itself in one of each form, which keeps what a restore loses, and in a model's."""
STEPWISE = replace(
    DEVICE, lengths=(65, 1, 64, 63), boundaries=3, batches=(1, 2, 8), prefixes=(1, 17, 64), regimes=("mild", "bound")
)
"""On a GPU, for forms in torch, which launch many kernels: a call takes 0.1 s and more beside other processes."""


@dataclass(frozen=True)
class Case:
    """Inputs, initial states [R, HV, V, K], and what they are called in an example."""

    name: str
    inputs: KdaInputs
    initial: Tensor

    def part(self, *spans: tuple[int, int, int]) -> Case:
        """The pack of these parts: (sequence, from, to), tokens counted from the sequence's start."""
        x = self.inputs
        index = torch.cat([torch.arange(x.offsets[s] + begin, x.offsets[s] + end) for s, begin, end in spans])
        tokens = {name: getattr(x, name)[index.to(x.q.device)] for name in TOKENS}
        offsets = (0, *accumulate(end - begin for _, begin, end in spans))
        picked = self.initial[torch.tensor([s for s, _, _ in spans], device=self.initial.device)]
        return Case(self.name, replace(x, **tokens, offsets=offsets), picked)

    def alone(self, sequence: int) -> Case:
        return self.part((sequence, 0, self.inputs.lengths()[sequence]))

    def begun(self, initial: Tensor) -> Case:
        """The same tokens from other states [R, HV, V, K]."""
        return replace(self, initial=initial)

    def slice(self, sequence: int) -> slice:
        """Where the sequence's tokens are in o."""
        return slice(self.inputs.offsets[sequence], self.inputs.offsets[sequence + 1])


@dataclass(frozen=True)
class Subject:
    """A provider's kernel, where it runs, and with which shapes.

    Attributes:
        asked: the recipe to run where the kernel claims none.
        recording: a model's activations, which then are one more regime.
    """

    provider: Provider
    found: ProviderKernel
    device: str = "cpu"
    asked: str = "sglang"
    sizes: Sizes = SMALL
    seed: int = 0
    learnt: Learnt = field(default=())
    recording: Recording | None = None

    @property
    def form(self) -> str:
        """As the error model has it: chunk, or recurrent (decode and verify kernels, too)."""
        return "chunk" if self.found.kernel.form == "chunk" else "recurrent"

    @property
    def interior(self) -> list[SnapshotSource]:
        return sorted(self.found.kernel.sources - {SnapshotSource.FINAL})

    def recipe(self, inputs: KdaInputs) -> Recipe:
        """The recipe that the call is said to compute."""
        return preset(self.found.claim(inputs) or self.unclaimed())

    def run(self, case: Case, rows: Sequence[SnapshotRow] = ()) -> KdaOutput:
        """One call. The pairs of probes stay comparable: nothing but the arguments changes."""
        return self.found.kernel(case.inputs, case.initial, rows, self.recipe(case.inputs))

    def truth(self, case: Case) -> KdaOutput:
        """Computed on the CPU: on a GPU its small steps would wait for the kernels of other processes."""
        found = ORACLE_KERNEL(case.inputs.to("cpu"), case.initial.cpu(), (), self.recipe(case.inputs))
        return KdaOutput(*(x.to(self.device) for x in (found.o, found.final, found.snapshots)))

    def predicted(self, case: Case) -> Predicted:
        """What the recipe predicts, and the fp32 errors of single elements, which weigh in narrow heads; on the CPU."""
        inputs = case.inputs.to("cpu")
        recipe = self.recipe(inputs)
        found, single = predict_for(inputs, recipe, self.form), elementwise(inputs, recipe, self.device == "cuda")
        return Predicted(hypot(found.state, single), hypot(found.output, single))

    def prediction(self, case: Case) -> Callable[[], Predicted]:
        """The same, computed when it is asked for."""
        return partial(self.predicted, case)

    def decays(self) -> Iterator[Decays]:
        """Each regime in this kernel's shape, with its lower bound if it has one."""
        named = {regime.name: regime for regime in regimes(self.seed, self.learnt)}
        if Decay.SOFTPLUS in self.found.can.decays:
            yield from ((self._fitted(regime), None) for regime in named.values())
        bounded = Decay.LOWER_BOUND in self.found.can.decays and self.found.kind is ModelKind.KDA
        if bounded:
            yield replace(self._fitted(named["kimi"]), name=f"bound {LOWER_BOUND:g}"), LOWER_BOUND
        if self.recording is not None:
            real = Regime("recorded", self.recording.A_log, self.recording.dt_bias, recorded=True)
            only = bounded and Decay.SOFTPLUS not in self.found.can.decays
            yield (replace(real, name=f"recorded, bound {LOWER_BOUND:g}"), LOWER_BOUND) if only else (real, None)

    def several(self) -> list[Decays]:
        """The regimes of properties that compare a kernel with itself; at least one."""
        found, wanted = list(self.decays()), self.sizes.regimes
        return [each for each in found if not wanted or each[0].name.startswith(wanted)] or found[:1]

    def _fitted(self, regime: Regime) -> Regime:
        """Heads repeated and channels cut to this kernel's; one channel for GDN."""
        heads = torch.arange(self.sizes.heads) % len(regime.A_log)
        width = 1 if self.found.kind is ModelKind.GDN else self.sizes.key
        channels = torch.arange(width) % regime.dt_bias.shape[1]
        return Regime(regime.name, regime.A_log[heads], regime.dt_bias[heads][:, channels])

    def usual(self) -> Decays:
        """The regime of the properties that need only one: Kimi's initialisation, if the kernel has that decay."""
        found = list(self.decays())
        return next((each for each in found if each[0].name == "kimi"), found[0])

    def case(self, lengths: Sequence[int], decay: Decays | None = None) -> Case:
        """A pack of sequences of these lengths: random, or cut from the recording one after the other."""
        regime, bound = decay or self.usual()
        return self._recorded(lengths, regime, bound) if regime.recorded else self._random(lengths, regime, bound)

    def _random(self, lengths: Sequence[int], regime: Regime, bound: float | None) -> Case:
        draws, tokens, z = torch.Generator().manual_seed(self.seed), sum(lengths), self.sizes
        claimed = preset(next(iter(self.found.can.claims), self.unclaimed()))

        def normal(*shape: int) -> Tensor:
            return round_to(torch.randn(*shape, generator=draws), claimed.activation)

        x = KdaInputs(
            q=normal(tokens, z.heads, z.key),
            k=normal(tokens, z.heads, z.key),
            v=normal(tokens, z.heads, z.value),
            a=normal(tokens, z.heads, regime.dt_bias.shape[1]) * 0.5,
            b=normal(tokens, z.heads),
            A_log=regime.A_log,
            dt_bias=regime.dt_bias,
            offsets=(0, *accumulate(lengths)),
            lower_bound=bound,
        )
        initial = torch.randn(len(lengths), z.heads, z.value, z.key, generator=draws) * 0.1
        return self._placed(regime, x, initial)

    def _recorded(self, lengths: Sequence[int], regime: Regime, bound: float | None) -> Case:
        """The model's own width; every sequence begins with the state that the model's text ended in."""
        assert self.recording is not None
        real, channels = self.recording.heads(self.sizes.heads), 1 if self.found.kind is ModelKind.GDN else None
        index = torch.arange(sum(lengths)) % len(real.q)
        x = KdaInputs(
            q=real.q[index],
            k=real.k[index],
            v=real.v[index],
            a=real.a[index][..., :channels],
            b=real.b[index],
            A_log=real.A_log,
            dt_bias=real.dt_bias[:, :channels],
            offsets=(0, *accumulate(lengths)),
            lower_bound=bound,
        )
        return self._placed(regime, x, real.state.expand(len(lengths), -1, -1, -1))

    def _placed(self, regime: Regime, x: KdaInputs, initial: Tensor) -> Case:
        """The case on the subject's device, in the dtype of the recipe's container."""
        return Case(f"{regime.name} decay", x.to(self.device), initial.to(self.device, x.v.dtype).contiguous())

    def unclaimed(self) -> str:
        takes = self.found.kernel.recipes
        return self.asked if takes is None or self.asked in takes else min(takes)

    def resized(self, key: int, value: int) -> Subject:
        """The same with other widths."""
        return replace(self, sizes=replace(self.sizes, key=key, value=value))


def words(lengths: Sequence[int]) -> str:
    """``lengths 70, 1`` for an example."""
    few = ", ".join(map(str, lengths[:6]))
    return f"length{'s' if len(lengths) > 1 else ''} {few}{'…' if len(lengths) > 6 else ''}"
