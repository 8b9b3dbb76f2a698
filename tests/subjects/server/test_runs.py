"""The whole line against a toy server: pass, fail, vacuous, inconclusive or environment, each for its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaycheck.bench.sessions import Shape, write_sessions
from replaycheck.subjects.choose import find_subject
from replaycheck.subjects.server.http import Limits
from replaycheck.subjects.server.settings import ServerSettings
from tests.conftest import Outcome
from tests.subjects.runs import Run, result, settings, start
from tests.subjects.toy_model import CacheFaults
from tests.subjects.toy_server import ToyServer, WireFaults

GROUPS = 4

ALL = settings("score=2", "block=16", "top=160")
"""The whole vocabulary, so that no scored token is missing."""


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions whose second prompts are longer than four blocks of 16."""
    path = tmp_path_factory.mktemp("toy") / "sessions.jsonl"
    write_sessions(path, GROUPS, Shape(turns=2, prompt=36, answer=3))
    return path


@pytest.fixture
def run(replaycheck: Run, traces: Path, tmp_path: Path) -> Run:
    def asked(server: ToyServer, *more: object, subject: str = "vllm") -> Outcome:
        return start(replaycheck, subject, server.url, traces, tmp_path, (*ALL, *more))

    return asked


PINNED = settings("grid=block")


@pytest.mark.parametrize("more", [(), PINNED])
def test_a_clean_cache_passes_with_every_hit_proven(run: Run, tmp_path: Path, more: tuple[str, ...]) -> None:
    with ToyServer() as server:
        assert run(server, *more).code == 0
    found = result(tmp_path)
    warm = found["arms"][-1]
    assert warm["hits"]["as expected"] == GROUPS
    assert warm["proven_hits"] == warm["expected_hits"] == GROUPS
    assert found["cells"][0]["effect"] == ("state" if more else "total")
    assert found["cells"][0]["abs_dlogp"]["max"] == 0
    assert found["floor"]["measures"][0]["positions"]
    assert found["notes"][0] == "token ids as they are in the traces"
    assert any("split arm" in note for note in found["notes"])


def test_two_runs_are_the_same_to_the_byte(run: Run, tmp_path: Path) -> None:
    kept = []
    for _ in range(2):
        with ToyServer() as server:
            assert run(server).code == 0
        kept.append((tmp_path / "run" / "result.json").read_bytes())
        (tmp_path / "run").rename(tmp_path / f"run{len(kept)}")
    assert kept[0] == kept[1]
    assert b"127.0.0.1" not in kept[0]


def test_a_rounded_state_fails_where_cold_is_cut_alike(run: Run, tmp_path: Path) -> None:
    with ToyServer(CacheFaults(rounded=True)) as server:
        assert run(server, *PINNED).code == 1
    assert result(tmp_path)["cells"][0]["bits_differ"] > 0


def test_a_rounded_state_can_not_be_told_from_other_cuts_without_a_split(run: Run, tmp_path: Path) -> None:
    with ToyServer(CacheFaults(rounded=True)) as server:
        assert run(server).code == 6
    gate = result(tmp_path)["gates"][0]
    assert gate["verdict"] == "inconclusive"
    assert "without a split arm" in gate["sentence"]


@pytest.mark.parametrize("fault", [CacheFaults(stale=True), CacheFaults(late=True)])
def test_another_state_fails_in_any_case(run: Run, fault: CacheFaults) -> None:
    with ToyServer(fault) as server:
        assert run(server).code == 1


@pytest.mark.parametrize("fault", [CacheFaults(never=True), CacheFaults(silent=True)])
def test_without_a_proven_hit_nothing_is_proven(run: Run, tmp_path: Path, fault: CacheFaults) -> None:
    with ToyServer(fault) as server:
        assert run(server).code == 5
    assert result(tmp_path)["cells"][0]["vacuous"]


def test_controls_give_a_floor(run: Run, tmp_path: Path) -> None:
    with ToyServer() as server:
        assert run(server, "--subject-option", "batch=2").code == 0
    assert {measure["control"] for measure in result(tmp_path)["floor"]["measures"]} >= {"repeat", "batch"}


def test_sglang_speaks_its_own_api(run: Run, tmp_path: Path) -> None:
    with ToyServer() as server:
        assert run(server, subject="sglang").code == 0
        paths = {path for path, _, _ in server.requests}
    assert {"/generate", "/flush_cache"} <= paths
    assert result(tmp_path)["arms"][-1]["proven_hits"] == GROUPS


def test_a_gateway_without_extensions_is_compared_by_salt(run: Run, tmp_path: Path) -> None:
    with ToyServer(plain=True) as server:
        assert run(server, subject="openai").code == 0
    found = result(tmp_path)
    assert found["kernels"] == "openai unknown"
    assert found["arms"][-1]["proven_hits"] == GROUPS


def test_an_endpoint_where_nothing_is_cold_needs_a_second_one(run: Run, tmp_path: Path) -> None:
    with ToyServer(plain=True, salted=False) as server:
        outcome = run(server, subject="openai")
        assert outcome.code == 4
        assert "cold-url=URL" in outcome.err
        with ToyServer(CacheFaults(never=True), plain=True, salted=False) as other:
            # Its one cache is shared by both arms' warm requests, so hits may be longer than a space's own.
            assert run(server, "--subject-option", f"cold-url={other.url}", subject="openai").code == 0


def test_the_key_is_in_every_request_and_in_no_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAYCHECK_API_KEY", "sk-very-secret")
    with ToyServer() as server:
        run(server)
        assert all(headers["Authorization"] == "Bearer sk-very-secret" for _, _, headers in server.requests)
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert files and not any(b"sk-very-secret" in path.read_bytes() for path in files)


def test_a_run_goes_on_when_the_server_is_back(run: Run, replaycheck: Run, traces: Path, tmp_path: Path) -> None:
    with ToyServer(None, WireFaults(after=20, dies=True)) as server:
        assert run(server).code == 4
    done = set((tmp_path / "run" / "observations").glob("*.parquet"))
    find_subject.cache_clear()
    with ToyServer() as server:
        words = ("--subject", "vllm", "--url", server.url, "--traces", traces, "--resume", tmp_path / "run")
        assert replaycheck("run", *words, *ALL).code == 0
    assert 0 < len(done) < GROUPS == len(result(tmp_path)["cells"]) * GROUPS
    assert result(tmp_path)["summary"]["traces"] == GROUPS


def test_an_answer_without_end_is_cut_off(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServerSettings, "limits", Limits(body=15_000))
    with ToyServer(None, WireFaults(after=20, oversize=20_000)) as server:
        outcome = run(server)
    assert outcome.code == 4, outcome.err


def test_another_state_dtype_than_was_asked_for_is_found_and_never_passes(
    run: Run, replaycheck: Run, tmp_path: Path
) -> None:
    """The toy says float32, as SGLang does of its own argument."""
    with ToyServer() as server:
        outcome = run(server, "--subject-option", "pool=bf16", subject="sglang")
    assert outcome.code == 6, outcome.err
    said = " ".join(outcome.out.split())
    assert "A state dtype of bf16 was asked for, and fp32 is in use, so this run doesn't answer what was asked" in said
    assert "RC906 another state dtype than was asked for. bf16 was asked for" in said
    found = result(tmp_path)
    assert found["state_dtype"] == {"asked": "bf16", "in_use": "fp32"}
    assert {gate["verdict"] for gate in found["gates"]} == {"pass"}
    assert found["summary"]["verdict"] == "inconclusive"
    assert "the state dtype is the one asked for" in (tmp_path / "run" / "junit.xml").read_text()
    assert 'id="RC906"' in (tmp_path / "run" / "report.html").read_text()
    assert replaycheck("gate", tmp_path / "run", "--gates", "server").code == 6
    assert replaycheck("gate", tmp_path / "run", "--gates", "server", "--inconclusive", "fail").code == 1


def test_a_state_dtype_that_can_not_be_seen_is_said_once(run: Run, tmp_path: Path) -> None:
    with ToyServer() as server:
        assert run(server, "--subject-option", "pool=bf16").code == 0
    found = result(tmp_path)
    assert [note for note in found["notes"] if "dtype" in note] == [
        "not seen: a state dtype of bf16 was asked for; which one is in use can't be seen"
    ]
    assert found["findings"] == []
