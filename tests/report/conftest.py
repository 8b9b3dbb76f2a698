"""A synthetic run directory with the shape of the default matrix: 80 arms, 80 cells, three pools, six KDA layers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from replaycheck.diagnose.findings import Evidence, findings
from replaycheck.replay.store import Run, read_result, write_json, write_part, write_whole
from replaycheck.schema.arm import Answers, Arm, Cell, CheckpointPolicy, Compiler, Effect, Kernel, PoolDtype
from replaycheck.schema.environment import Environment
from replaycheck.schema.frames import to_arrow
from replaycheck.schema.result import (
    ArmResult,
    AuditResult,
    CellResult,
    Estimate,
    GateResult,
    ProbeResult,
    Result,
    Summary,
)
from replaycheck.schema.suite import Matrix, Suite, expand
from replaycheck.schema.tables import TABLES

LAYERS, HEADS, TRACES = (0, 1, 3, 4, 5, 7), (0, 1), 6
NOISE = {Effect.GRID: 4e-3, Effect.STATE: 0.0, Effect.EXACT: 0.0, Effect.TOTAL: 4e-3}  # nat, scale
CAST = {PoolDtype.FP32: 0.0, PoolDtype.BF16: 1.66e-3, PoolDtype.FP16: 2.08e-4}  # rms of one rounding
ROUNDED = (PoolDtype.FP32, PoolDtype.FP16)  # pools in which the seeded fault shows

ENVIRONMENT = Environment(
    inputs={"suite": "quick 5f", "model": "shipped ab", "seed": "0"},
    command=("replaycheck", "run", "--seed", "0"),
    device="cpu",
    device_name=None,
    versions={"replaycheck": "0.1.0", "torch": "2.13.0", "fla-core": None},
    platform="Linux",
    cpu="a CPU",
    cores=2,
    variables={"OMP_NUM_THREADS": "1"},
    started="2026-01-01T00:00:00+00:00",
    finished="2026-01-01T00:01:00+00:00",
    seconds=60.0,
)

Write = Callable[..., Path]


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """A clean and a faulty run, made once; tests get copies."""
    folder = tmp_path_factory.mktemp("originals")
    for fault in (False, True):
        synthesise(folder / str(fault), fault, positions=20)
    return {fault: folder / str(fault) for fault in (False, True)}


@pytest.fixture
def write_run(tmp_path: Path, originals: dict[bool, Path]) -> Write:
    """``write_run(fault=False, **changes)``: a run directory; ``changes`` replace fields of the result."""

    def write(fault: bool = False, **changes: Any) -> Path:
        run = Path(shutil.copytree(originals[fault], tmp_path / "run"))
        write_json(run / "result.json", read_result(Run(run)).model_copy(update=changes))
        return run

    return write


def synthesise(run: Path, fault: bool, positions: int) -> None:
    """Write a run of ``positions`` scored positions a trace and cell into the new folder ``run``."""
    rng = np.random.default_rng(0)
    matrix = [
        Matrix(
            history=tuple(Kernel),
            tail=tuple(Kernel),
            answers=(answers,),
            pool=tuple(PoolDtype),
            policy=CheckpointPolicy(every=64, turn_end=answers is Answers.DECODED),
        )
        for answers in Answers
    ]
    suite = {"schema": "replaycheck.suite/1", "name": "quick", "traces": ["suite:quick"], "matrix": matrix}
    arms, cells = expand(Suite.model_validate(suite))
    by_name = {arm.name: arm for arm in arms}
    pairs = pd.concat([_pairs(rng, cell, by_name[cell.candidate].pool, fault, positions) for cell in cells])
    restores = pd.concat([_restores(rng, cell, by_name[cell.candidate].pool, fault) for cell in cells])
    divergences = _divergences(rng, pairs)
    _write(run, _result(arms, cells, pairs, restores, divergences, fault), pairs, restores, divergences)


def _pairs(rng: Any, cell: Cell, pool: PoolDtype, fault: bool, positions: int) -> pd.DataFrame:
    n = TRACES * positions
    damaged = fault and pool in ROUNDED and cell.effect in (Effect.EXACT, Effect.STATE, Effect.TOTAL)
    scale = NOISE[cell.effect] + (1e-3 if damaged else 0.0)
    if cell.effect in (Effect.STATE, Effect.TOTAL):
        scale += CAST[pool] * 2
    offset = np.tile(np.arange(1, positions + 1), TRACES)
    dlogp = rng.normal(size=n) * rng.lognormal(0, 1.5, n) * scale * np.where(damaged & (offset < 5), 0, 1)
    margin = rng.lognormal(0, 1, n)
    return pd.DataFrame(
        {
            "cell": cell.name,
            "experiment": "forced",
            "cluster": "c",
            "role": "assistant",
            "branch": 0,
            "turn": 1,
            "trace": np.repeat([f"trace-{i}" for i in range(TRACES)], positions),
            "position": offset + 255,
            "dlogp": dlogp,
            "kl": dlogp**2 / 2,
            "flip": np.abs(dlogp) > margin * 0.2,
            "margin": margin,
            "bits_equal": dlogp == 0,
            "offset_from_restore": offset - 1,
        }
    )


def _restores(rng: Any, cell: Cell, pool: PoolDtype, fault: bool) -> pd.DataFrame:
    if cell.effect not in (Effect.EXACT, Effect.STATE):
        return pd.DataFrame()
    rows = []
    for trace in range(TRACES):
        for label, at in (("interior", 256), ("final", 320)):
            hit = fault and pool in ROUNDED and label == "interior"
            for layer in LAYERS:
                for head in HEADS:
                    jitter = rng.normal(1, 0.02)
                    cast = CAST[pool] * jitter
                    error = 1.66e-3 * jitter if hit else cast if cell.effect is Effect.STATE else 0.0
                    rows.append(
                        (
                            cell.name,
                            f"trace-{trace}",
                            f"0/1@{at}",
                            layer,
                            head,
                            error,
                            error * 3,
                            cast,
                            1.0 if hit else 1.5e-5,
                            True,
                            label,
                            pool.value,
                        )
                    )
    return pd.DataFrame(rows, columns=TABLES["restores"].names)


def _divergences(rng: Any, pairs: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for (cell, trace), of in pairs.groupby(["cell", "trace"], sort=False):
        for kind, event in (
            ("bits", ~of["bits_equal"]),
            ("argmax", of["flip"]),
            ("tolerance", of["dlogp"].abs() > 0.1),
        ):
            at = of[event].iloc[0] if event.any() else of.iloc[-1]
            a, b = rng.integers(32, 127, 2)
            rows.append(
                (
                    cell,
                    trace,
                    0,
                    1,
                    at["position"],
                    at["offset_from_restore"],
                    kind,
                    a,
                    b if event.any() else a,
                    at["margin"],
                    at["dlogp"],
                    not event.any(),
                    "forced",
                )
            )
    return pd.DataFrame(rows, columns=TABLES["divergences"].names)


def _result(arms: Any, cells: Any, pairs: Any, restores: Any, divergences: Any, fault: bool) -> Result:
    arm_results = tuple(_arm(arm, len(pairs) // len(cells)) for arm in arms)
    cell_results = tuple(_cell(cell, pairs, restores, divergences) for cell in cells)
    probes = (
        ProbeResult(
            name="double-rounding",
            verdict="pass",
            sentence="1 + 2^-11 + 2^-23 reaches fp16 as 1 + 2^-10.",
            values={"direct": 1.0009765625},
        ),
        ProbeResult(
            name="kernel-chunk-sglang",
            verdict="pass",
            sentence="Within 0.8 of the predicted error.",
            values={"ratio": 0.8, "n": 64},
        ),
    )
    audits = tuple(_audits(arms, fault))
    gates = _gates(cell_results, audits, fault)
    failed = sum(gate.verdict == "fail" for gate in gates)
    command = "replaycheck run quick --seed 0" + (" --fault bf16-snapshot" if fault else "")
    found = findings(Evidence(arm_results, cell_results, probes, audits, gates, restores, command))
    return Result(
        suite="quick",
        suite_digest="5f",
        subject="lab",
        model="shipped",
        model_digest="ab",
        recipe="sglang",
        kernels="ours",
        device="cpu",
        seed=0,
        faults=("bf16-snapshot",) if fault else (),
        not_checked=(),
        arms=arm_results,
        cells=cell_results,
        probes=probes,
        audits=audits,
        gates=gates,
        findings=found,
        summary=Summary(
            declared=len(gates),
            passed=len(gates) - failed,
            failed=failed,
            inconclusive=0,
            vacuous=0,
            verdict="fail" if failed else "pass",
            exit_code=int(bool(failed)),
            traces=TRACES,
            restores=2 * TRACES * 24,
            positions=len(pairs),
        ),
    )


def _arm(arm: Arm, positions: int) -> ArmResult:
    warm = 2 * TRACES if arm.compiler is Compiler.WARM else 0
    kernels = {"history": (arm.history.value,), "tail": (arm.tail.value,), "answer": (arm.answer.value,)}
    return ArmResult(
        **arm.model_dump(include=ArmResult.model_fields.keys() - {"policy"}),
        name=arm.name,
        policy=arm.policy.slug,
        kernels=kernels,
        expected_hits=warm,
        proven_hits=warm,
        computed_tokens=5000,
        positions=positions,
    )


def _cell(cell: Cell, pairs: Any, restores: Any, divergences: Any) -> CellResult:
    of, states = pairs[pairs["cell"] == cell.name], restores[restores["cell"] == cell.name]
    first = divergences[(divergences["cell"] == cell.name) & ~divergences["censored"].astype(bool)]
    size = of["dlogp"].abs()
    kinds = {kind: first[first["kind"] == kind] for kind in ("bits", "argmax", "tolerance")}
    return CellResult(
        **cell.model_dump(),
        name=cell.name,
        traces=TRACES,
        positions=len(of),
        restores=2 * TRACES,
        bits_differ=int((~of["bits_equal"]).sum()),
        abs_dlogp={f"p{q}".replace(".", ""): float(size.quantile(q / 100)) for q in (50, 90, 99, 99.9)}
        | {"max": float(size.max())},
        worst_trace_abs_dlogp=Estimate(value=float(size.mean()), n=TRACES, method="mean"),
        kl_mean=Estimate(value=float(of["kl"].mean()), n=TRACES, method="mean"),
        kl_max=float(of["kl"].max()),
        flips=int(of["flip"].sum()),
        flip_margin_max=float(of[of["flip"]]["margin"].max()) if of["flip"].any() else None,
        diverged_branches={kind: len(rows) for kind, rows in kinds.items()} | {"all": TRACES},
        first_divergence={
            k: int(rows["offset_from_restore"].min()) if len(rows) else None for k, rows in kinds.items()
        },
        state_rel_error=float(states["rel_error"].max()) if len(states) else None,
        restore_max_error=float(states["max_error"].max()) if len(states) else None,
        conv_unequal=0,
        vacuous=False,
    )


def _audits(arms: Any, fault: bool) -> Any:
    for arm in arms:
        if arm.compiler is Compiler.WARM:
            for label in ("interior", "interior-grid", "final-grid", "decode"):
                hit = fault and arm.pool in ROUNDED and label == "interior"
                chance = {PoolDtype.FP32: 1.5e-5, PoolDtype.FP16: 0.125, PoolDtype.BF16: 1.0}[arm.pool]
                for layer in LAYERS:
                    for head in HEADS:
                        yield AuditResult(
                            arm=arm.name,
                            label=label,
                            layer=layer,
                            head=head,
                            states=12,
                            bf16_like=12 if hit else 0,
                            min_share=1.0 if hit else chance * 0.8,
                            max_share=1.0 if hit else min(1.0, chance * 1.2),
                        )


def _gates(cells: Any, audits: Any, fault: bool) -> tuple[GateResult, ...]:
    exact = max((cell for cell in cells if cell.effect is Effect.EXACT), key=lambda cell: cell.bits_differ)
    dirty = sum(audit.bf16_like for audit in audits)
    rows = (
        (
            "warm-is-split-rounded",
            "bits_differ",
            exact.bits_differ,
            exact.name,
            "exact cells: the same bits at every position",
        ),
        ("one-cast", "bf16_like", dirty, audits[0].arm, "a wider pool holds what bf16 can't"),
        ("conv-bytes", "conv_unequal", 0, exact.name, "the conv state depends on tokens only"),
    )
    return tuple(
        GateResult(
            name=name,
            file="exact",
            metric=metric,
            scope="effect exact",
            verdict="fail" if value else "pass",
            value=Estimate(value=value, n=TRACES, method="count"),
            bound=0,
            worst=worst,
            why=why,
            fault="bf16-snapshot",
            fault_value=1234.0,
            sentence=f"{metric} is {value}, and at most 0 passes.",
        )
        for name, metric, value, worst, why in rows
    )


def _write(run: Path, result: Result, pairs: Any, restores: Any, divergences: Any) -> None:
    run.mkdir(parents=True)
    write_json(run / "result.json", result)
    write_json(run / "environment.json", ENVIRONMENT)
    write_part(Run(run), "pairs", "group", pairs)
    write_part(Run(run), "restores", "group", restores)
    write_whole(Run(run), "divergences", [to_arrow("divergences", divergences)])
