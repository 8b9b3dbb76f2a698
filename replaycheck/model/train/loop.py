"""The training loop: a budget of seconds or steps, a log, a saved state, and the model directory at the end."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Final

import torch
from torch import Tensor

from replaycheck.errors import UsageError
from replaycheck.model.checkpoint import load_weights
from replaycheck.model.folder import write_folder
from replaycheck.model.train.batches import Corpus, load_corpus
from replaycheck.model.train.delta import DeltaRule, chunk_delta_rule, sequential_delta_rule
from replaycheck.model.train.evaluate import HeldOut, evaluate
from replaycheck.model.train.log import LOG_FILE, TrainingLog, environment
from replaycheck.model.train.network import Network
from replaycheck.model.train.settings import TrainSettings, learning_rate
from replaycheck.model.train.state import RunState, fresh_state, load_state, save_state
from replaycheck.say import Say

__all__ = ["TrainResult", "train"]


# Scoring and writing took 14 s on an H200 when the kernels for scoring were new, 2 s otherwise.
_SECONDS_TO_FINISH: Final = 20.0


@dataclass(frozen=True)
class TrainResult:
    """What a run came to; ``seconds`` of training alone, ``held_out`` measured on the weights as stored."""

    steps: int
    tokens: int
    seconds: float
    held_out: tuple[HeldOut, ...]


def train(settings: TrainSettings, report: Say = lambda line: None) -> TrainResult:
    """Train, evaluate on the held-out blocks, write the model directory ``settings.out``.

    ``report`` gets each line of the log. Raises :class:`UsageError` for a corpus or state that doesn't fit and
    :class:`EngineEnvironmentError` where the device or its kernels are missing.
    """
    begun = time.monotonic()
    delta: DeltaRule = chunk_delta_rule() if settings.device == "cuda" else sequential_delta_rule
    corpus = load_corpus(settings.corpus, settings.device)
    settings.out.mkdir(parents=True, exist_ok=True)
    log = TrainingLog(settings.out / LOG_FILE, report)
    state = _first_state(settings)
    log.write(event="start", step=state.step, train_tokens=int((corpus.ends - corpus.starts).sum()),
              held_out_blocks=len(corpus.held_out), **environment(settings.device))  # fmt: skip
    network = Network.compiled(settings.config, delta) if settings.compile else Network(settings.config, delta)
    _warm_up(settings, network, state, corpus, log)
    settings = _within_total(settings, time.monotonic() - begun)
    _steps(settings, network, state, corpus, log)
    if settings.state_file:
        save_state(settings.state_file, state, settings)
    held_out = _finish(settings, delta, state, corpus)
    for result in held_out:
        log.write(event="held_out", **asdict(result))
    return TrainResult(state.step, state.tokens, state.elapsed, held_out)


def _within_total(settings: TrainSettings, spent: float) -> TrainSettings:
    """The settings with no more seconds of training than the whole call has left after ``spent``.

    fla's kernels were tuned for 300 s on a first call (H200, triton 3.6), against 25 s on a later one in the
    same process, so the time before training can't be planned for.
    """
    left = settings.total_seconds - spent - _SECONDS_TO_FINISH
    if settings.max_steps is not None or left >= settings.seconds:
        return settings
    if left <= 0:
        raise UsageError(
            f"compilation took {spent:.0f} s of {settings.total_seconds:.0f} s in all, and nothing is left for "
            "training; allow more, or train again while the compiled kernels are cached"
        )
    return replace(settings, seconds=left)


def _first_state(settings: TrainSettings) -> RunState:
    if settings.resume and settings.state_file:
        return load_state(settings.state_file, settings)
    return fresh_state(settings)


def _warm_up(settings: TrainSettings, network: Network, state: RunState, corpus: Corpus, log: TrainingLog) -> None:
    """Compile and tune for every batch shape before the clock starts; gradients are thrown away."""
    begun = time.monotonic()
    for stage in settings.stages:
        _loss(settings, network, state, corpus.batch(stage, settings.seed, 0, 0.0)).backward()
        state.optimizer.zero_grad()
        _synchronize(settings)
        log.write(event="compiled", length=stage.length, seconds=round(time.monotonic() - begun, 1))


def _steps(settings: TrainSettings, network: Network, state: RunState, corpus: Corpus, log: TrainingLog) -> None:
    saved = time.monotonic()
    begun = saved - state.elapsed
    losses = torch.zeros((), device=settings.device)
    while (progress := _progress(settings, state)) < 1.0:
        stage = settings.stage_at(progress)
        batch = corpus.batch(stage, settings.seed, state.step, settings.aligned_share)
        losses += _step(settings, network, state, batch, learning_rate(settings, state.step, progress))
        state.step += 1
        state.tokens += stage.batch * stage.length
        if state.step % settings.log_every == 0:
            # Reading the loss waits for the device, so the clock can't run ahead of the work by more than this.
            mean, losses = float(losses) / settings.log_every, torch.zeros_like(losses)
            log.write(step=state.step, seconds=round(state.elapsed, 2), tokens=state.tokens, loss=round(mean, 4),
                      rate=round(learning_rate(settings, state.step, progress), 6), length=stage.length)  # fmt: skip
        state.elapsed = time.monotonic() - begun
        if settings.state_file and time.monotonic() - saved >= settings.save_seconds:
            save_state(settings.state_file, state, settings)
            saved = time.monotonic()
    _synchronize(settings)


def _progress(settings: TrainSettings, state: RunState) -> float:
    """Share of the budget that is used."""
    if settings.max_steps is not None:
        return state.step / settings.max_steps
    return state.elapsed / settings.seconds


def _step(
    settings: TrainSettings, network: Network, state: RunState, batch: tuple[Tensor, Tensor], rate: float
) -> Tensor:
    """One update; returns the mean loss in nats, still on the device."""
    for group in state.optimizer.param_groups:
        group["lr"] = rate
    loss = _loss(settings, network, state, batch)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(list(state.weights.values()), settings.clip)
    state.optimizer.step()
    state.optimizer.zero_grad()
    return loss.detach()


def _loss(settings: TrainSettings, network: Network, state: RunState, batch: tuple[Tensor, Tensor]) -> Tensor:
    with _mixed_precision(settings.device):
        return network.losses(state.weights, *batch).mean()


def _finish(settings: TrainSettings, delta: DeltaRule, state: RunState, corpus: Corpus) -> tuple[HeldOut, ...]:
    """Write the directory and score the weights as they are stored in it, with eager parts: other shapes."""
    write_folder(settings.out, settings.config, state.weights)
    stored = {name: tensor.float().to(settings.device) for name, tensor in load_weights(settings.out).items()}
    longest = max(stage.length for stage in settings.stages)
    windows = sorted({min(stage.length for stage in settings.stages), min(2 * longest, settings.config.max_length)})
    with _mixed_precision(settings.device):
        network = Network(settings.config, delta)
        return tuple(evaluate(network, stored, corpus, window) for window in windows)


def _mixed_precision(device: str) -> AbstractContextManager[object]:
    """bf16 products on the GPU; the CPU path is for checking the loop and stays in fp32."""
    return torch.autocast("cuda", torch.bfloat16) if device == "cuda" else nullcontext()


def _synchronize(settings: TrainSettings) -> None:
    if settings.device == "cuda":
        torch.cuda.synchronize()
