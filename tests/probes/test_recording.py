"""Recorded activations: what the lab's layers got, in a kernel's shape."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import torch

from replaycheck.probes.recorder import record
from replaycheck.probes.recording import Recording, load_recording
from replaycheck.probes.subject import Subject
from replaycheck.state_probes.groups import chain
from replaycheck_kernels.providers import ModelKind
from tests.probes import bad_kernels as bad
from tests.probes.small import SMALL, write_small


def noise(tokens: int, heads: int, key: int, value: int) -> Recording:
    """A recording of normal noise in bf16 values."""
    draws = torch.Generator().manual_seed(5)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draws).bfloat16().float()

    keys = [normal(tokens, heads, key) for _ in range(3)]
    return Recording(
        keys[0],
        keys[1],
        normal(tokens, heads, value),
        keys[2],
        normal(tokens, heads),
        torch.zeros(heads),
        normal(heads, key),
        normal(heads, value, key),
    )


def with_recording(recording: Recording) -> Subject:
    return replace(bad.subject(), recording=recording)


def test_the_lab_is_recorded_layer_by_layer(tmp_path: Path) -> None:
    found = record(write_small(tmp_path / "model", "kda", "mla", "kda"), [chain(40, 3, 50, 2)], tokens=60)
    heads, width = 2 * SMALL.kda_heads, SMALL.kda_head_dim
    assert found.q.shape == found.a.shape == (60, heads, width)
    assert found.state.shape == (heads, width, width) and found.state.any()
    assert not torch.equal(found.k[:, : SMALL.kda_heads], found.k[:, SMALL.kda_heads :])
    assert torch.equal(found.v, found.v.bfloat16().float())
    again = load_recording(found.save(tmp_path / "recording.safetensors"))
    assert all(torch.equal(getattr(found, each.name), getattr(again, each.name)) for each in fields(found))


def test_a_pack_is_cut_from_the_recording_and_begins_again_where_it_ends() -> None:
    real = noise(tokens=20, heads=3, key=16, value=8)
    subject = with_recording(real)
    recorded = next(decay for decay in subject.decays() if decay[0].recorded)
    case = subject.case((12, 15), recorded)
    assert torch.equal(case.inputs.v[:20], real.v[:, :2]) and torch.equal(case.inputs.v[20:27], real.v[:7, :2])
    assert torch.equal(case.inputs.dt_bias, real.dt_bias[:2])
    assert case.initial.shape == (2, 2, 8, 16) and torch.equal(case.initial[1], real.state[:2])


def test_one_decay_a_head_takes_one_channel() -> None:
    subject = with_recording(noise(tokens=20, heads=3, key=16, value=8))
    gdn = replace(subject, found=replace(subject.found, kind=ModelKind.GDN))
    recorded = next(decay for decay in gdn.decays() if decay[0].recorded)
    case = gdn.case((5,), recorded)
    assert case.inputs.a.shape == (5, 2, 1) and case.inputs.dt_bias.shape == (2, 1)


def test_heads_repeat_where_a_kernel_has_more() -> None:
    real = noise(tokens=4, heads=2, key=16, value=8)
    assert torch.equal(real.heads(5).q[:, 4], real.q[:, 0])
