"""A floor from elsewhere is refused with what differs; what changes only which bits come out is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaycheck.errors import UsageError
from replaycheck.floor.place import differences, given_floors, place_of
from replaycheck.json_files import write_json
from replaycheck.schema.floor import FloorFile, FloorPlace, Floors

HERE = place_of("lab", "tiny", "abc", "sglang", "ours", "cpu", None)
GPU = HERE.model_copy(update={"device": "cuda", "device_name": "H200"})


def changed(place: FloorPlace, **changes: object) -> FloorPlace:
    return place.model_copy(update=changes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"subject": "sglang"}, "subject sglang, here lab"),
        ({"model_digest": "xyz"}, "model digest xyz, here abc"),
        ({"recipe": "exact"}, "recipe exact, here sglang"),
        ({"kernels": "fla 0.6.0"}, "kernels fla 0.6.0, here ours"),
        ({"device": "cuda"}, "device cuda, here cpu"),
        ({"versions": HERE.versions | {"torch": "1.0"}}, "torch 1.0, here "),
        ({"versions": HERE.versions | {"replaycheck": "0.0"}}, "replaycheck 0.0, here "),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_these_are_elsewhere(change: dict[str, object], said: str) -> None:
    refused, warned = differences(changed(HERE, **change), HERE)
    assert len(refused) == 1 and said in refused[0]
    assert not warned


def test_names_processors_and_variables_are_only_said() -> None:
    other = changed(HERE, model="renamed", device_name="another CPU", variables={"OMP_NUM_THREADS": "1"})
    refused, warned = differences(other, HERE)
    assert not refused
    assert len(warned) == 3


def test_an_accelerator_and_its_triton_count() -> None:
    refused, _ = differences(changed(GPU, device_name="H100"), GPU)
    assert refused == ["device name H100, here H200"]
    other = GPU.versions | {"triton": "0.1"}
    assert len(differences(changed(GPU, versions=other), GPU)[0]) == 1
    assert differences(changed(HERE, versions=other), HERE) == (
        [],
        [f"triton 0.1, here {HERE.versions['triton'] or 'not installed'}"],
    )


def stored(path: Path, place: FloorPlace) -> Path:
    floors = Floors(origin="own", measures=())
    write_json(path, FloorFile(place=place, suite="s", suite_digest="d", seed=0, groups=1, floors=floors))
    return path


def test_every_difference_is_named_in_one_refusal(tmp_path: Path) -> None:
    path = stored(tmp_path / "floor.json", changed(HERE, recipe="exact", model_digest="xyz"))
    with pytest.raises(UsageError) as refusal:
        given_floors(path, HERE, "d", 0)
    assert all(each in str(refusal.value) for each in ("recipe exact", "model digest xyz", "replaycheck floor --out"))


def test_another_suite_or_seed_is_a_warning(tmp_path: Path) -> None:
    floors, warnings = given_floors(stored(tmp_path / "floor.json", HERE), HERE, "other", 5)
    assert floors.origin == "given"
    assert len(warnings) == 2
    assert given_floors(tmp_path / "floor.json", HERE, "d", 0)[1] == ()


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match="replaycheck floor --out"):
        given_floors(tmp_path / "x.json", HERE, "d", 0)
