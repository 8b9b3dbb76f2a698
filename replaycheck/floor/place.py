"""Where a floor holds, and a floor from elsewhere refused with what differs.

Refused: another subject, model, recipe, kernels, device, accelerator, or version of torch or replaycheck (of triton, too,
where it computes): each of these can change how much noise there is, and not only which noise. Only said: another name of
the same model, another processor, other variables of the environment, another suite or seed: they change which bits come
out, and how much they differ is a property of kernels and model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from replaycheck.errors import UsageError
from replaycheck.json_files import read_json
from replaycheck.replay.environment import describe
from replaycheck.schema.floor import FloorFile, FloorPlace, Floors

__all__ = ["VERSIONS", "differences", "given_floors", "place_of", "read_floor"]

VERSIONS = ("torch", "triton", "replaycheck")

_REFUSED = ("subject", "model_digest", "recipe", "kernels", "device")
_SAID = ("model", "variables")


def place_of(
    subject: str,
    model: str,
    model_digest: str,
    recipe: str,
    kernels: str,
    device: str,
    device_name: str | None,
    versions: Iterable[tuple[str, str | None]] = (),
) -> FloorPlace:
    """This machine and these inputs. ``versions``: of what a subject itself runs on."""
    here = describe({}, device, device_name, command=())
    return FloorPlace(
        subject=subject,
        model=model,
        model_digest=model_digest,
        recipe=recipe,
        kernels=kernels,
        device=device,
        device_name=here.cpu if device == "cpu" else device_name,
        versions={name: here.versions[name] for name in VERSIONS} | dict(versions),
        variables=here.variables,
    )


def read_floor(path: Path) -> FloorFile:
    """Raises :class:`UsageError` for anything but a floor file."""
    return read_json(path, FloorFile, "give a file that `replaycheck floor --out FILE.json` wrote")


def given_floors(path: Path, here: FloorPlace, suite_digest: str, seed: int) -> tuple[Floors, tuple[str, ...]]:
    """The floors in a file, without its digest, and warnings.

    Raises:
        UsageError: it was measured elsewhere; every difference is named.
    """
    found = read_floor(path)
    refused, said = differences(found.place, here)
    if refused:
        raise UsageError(
            f"--floor {str(path)!r} was measured elsewhere: {'; '.join(refused)}; measure one here with "
            "`replaycheck floor --out FILE.json`, or leave --floor out and the run measures its own"
        )
    if found.suite_digest != suite_digest:
        said.append(f"suite {found.suite!r} ({found.suite_digest}), this run's is {suite_digest}")
    if found.seed != seed:
        said.append(f"seed {found.seed}, this run's is {seed}")
    warnings = tuple(f"the floor in {str(path)!r} was measured with {each}" for each in said)
    return found.floors.model_copy(update={"origin": "given"}), warnings


def differences(there: FloorPlace, here: FloorPlace) -> tuple[list[str], list[str]]:
    """What makes a floor one from elsewhere, and what only deserves a warning."""
    refused, said = list(_unlike(there, here, _REFUSED)), list(_unlike(there, here, _SAID))
    (said if here.device == "cpu" else refused).extend(_unlike(there, here, ("device_name",)))
    for name in sorted(there.versions.keys() | here.versions.keys()):
        a, b = there.versions.get(name), here.versions.get(name)
        if a != b:
            idle = name == "triton" and here.device == "cpu"
            (said if idle else refused).append(f"{name} {a or 'not installed'}, here {b or 'not installed'}")
    return refused, said


def _unlike(there: FloorPlace, here: FloorPlace, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        a, b = getattr(there, name), getattr(here, name)
        if a != b:
            yield f"{name.replace('_', ' ')} {a}, here {b}"
