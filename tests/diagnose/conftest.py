"""Evidence of a clean run of three warm arms, to be spoiled by a test; and small cases that are run on a tiny model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from replaycheck.diagnose.again import Case
from replaycheck.diagnose.findings import Evidence
from replaycheck.faults.cell import SmallCell
from replaycheck.faults.shipped import FAULTS
from replaycheck.faults.workloads import workload
from replaycheck.replay.worker import Work, one_thread
from replaycheck.schema.arm import Answers, Compiler, Effect, Kernel, PoolDtype
from replaycheck.schema.frames import empty_frame
from replaycheck.schema.result import ArmResult, AuditResult, CellResult, Estimate
from replaycheck.state_probes.tiny import write_tiny
from replaycheck.subjects.lab.kernels import KernelChoice

LAYERS, HEADS, LABELS = (0, 2), (0, 1), ("interior", "final", "decode")


def arm(pool: PoolDtype, compiler: Compiler, **changes: Any) -> ArmResult:
    facts: dict[str, Any] = {
        "name": f"{compiler}/{pool}",
        "compiler": compiler,
        "history": Kernel.CHUNK,
        "tail": Kernel.CHUNK,
        "answer": Kernel.RECURRENT,
        "answers": Answers.DECODED,
        "pool": pool,
        "policy": "grid64",
        "recipe": "sglang",
        "kernels": {"history": ("chunk",)},
        "expected_hits": 4,
        "proven_hits": 4,
        "computed_tokens": 9,
        "positions": 50,
    }
    return ArmResult(**facts | changes)


def cell(pool: PoolDtype, **changes: Any) -> CellResult:
    nothing = Estimate(value=0, n=3, method="mean")
    facts: dict[str, Any] = {
        "name": f"exact/{pool}",
        "effect": Effect.EXACT,
        "reference": f"split-rounded/{pool}",
        "candidate": f"warm/{pool}",
        "traces": 3,
        "positions": 50,
        "restores": 4,
        "bits_differ": 0,
        "abs_dlogp": {},
        "worst_trace_abs_dlogp": nothing,
        "kl_mean": nothing,
        "kl_max": 0,
        "flips": 0,
        "flip_margin_max": None,
        "diverged_branches": {},
        "first_divergence": {},
        "state_rel_error": 0,
        "restore_max_error": 0,
        "conv_unequal": 0,
        "vacuous": False,
    }
    return CellResult(**facts | changes)


def audit(pool: PoolDtype, label: str, layer: int, head: int, dirty: int = 0) -> AuditResult:
    return AuditResult(
        arm=f"warm/{pool}", label=label, layer=layer, head=head, states=5, bf16_like=dirty, min_share=0.0, max_share=0.1
    )


def restore(**changes: Any) -> dict[str, Any]:
    return {
        "cell": "exact/fp32",
        "trace": "t",
        "restore": "0/1@64",
        "layer": 0,
        "head": 0,
        "rel_error": 0.0,
        "max_error": 0.0,
        "one_cast_error": 0.0,
        "bf16_share": 0.0,
        "conv_equal": True,
        "label": "interior",
        "dtype": "fp32",
    } | changes


@pytest.fixture
def clean() -> Evidence:
    places = [(layer, head) for layer in LAYERS for head in HEADS]
    return Evidence(
        arms=tuple(arm(pool, compiler) for pool in PoolDtype for compiler in (Compiler.SPLIT_ROUNDED, Compiler.WARM)),
        cells=tuple(cell(pool) for pool in PoolDtype),
        probes=(),
        audits=tuple(audit(pool, label, *place) for pool in PoolDtype for label in LABELS for place in places),
        gates=(),
        restores=empty_frame("restores"),
        reproduce="replaycheck run --seed 0",
    )


@pytest.fixture
def with_restores(clean: Evidence) -> Callable[..., Evidence]:
    """``with_restores({...}, {...})``: the clean evidence with these rows, each a change of a clean restore."""
    return lambda *rows: replace(clean, restores=pd.DataFrame([restore(**row) for row in rows]))


@pytest.fixture
def spoil(clean: Evidence) -> Callable[..., Evidence]:
    """``spoil(test)``: the clean evidence with bf16-like states wherever ``test(pool, label, layer, head)`` is true."""

    def spoiled(test: Callable[[str, str, int, int], bool]) -> Evidence:
        rows = []
        for row in clean.audits:
            pool = row.arm.removeprefix("warm/")
            rows.append(
                audit(PoolDtype(pool), row.label, row.layer, row.head, 5 * test(pool, row.label, row.layer, row.head))
            )
        return replace(clean, audits=tuple(rows))

    return spoiled


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model of both layer kinds."""
    folder = tmp_path_factory.mktemp("diagnose") / "tiny"
    write_tiny(folder, 0)
    return folder


@pytest.fixture
def case_of(tiny: Path) -> Callable[..., Case]:
    """``case_of("restore-late")``: a shipped fault in one of its small cells, or no fault in a cell that is given."""
    one_thread()

    def case(fault: str | None, cell: SmallCell | None = None, seed: int = 0) -> Case:
        found = cell or (FAULTS[fault].cells[0] if fault else SmallCell())
        reference, warm = found.arms
        faults = (fault,) if fault else ()
        work = Work((reference, warm), (found.exact,), tiny, found.recipe, faults, KernelChoice())
        return Case(work, workload(found.group, seed), reference, warm)

    return case
