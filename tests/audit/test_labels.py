"""Labels of stored states: what they carry, what is compared, what is said, what raising means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from replaycheck.audit.labels import Audit, AuditError, AuditMode, TensorBytes, label_of
from replaycheck.errors import ExitCode

WHERE = "group 'g', arm warm"


def tensors(seed: int = 0, dtype: str = "bfloat16", layers: int = 2) -> dict[str, TensorBytes]:
    data = np.random.default_rng(seed).integers(0, 256, layers * 24, np.uint8)
    ring = TensorBytes("int32", (layers, 2), np.arange(8 * layers, dtype=np.uint8))
    return {"temporal": TensorBytes(dtype, (layers, 2, 3), data), "ring": ring}


def test_a_label_carries_position_layout_dtypes_and_a_checksum() -> None:
    label = label_of("r0@64", 64, tensors())
    assert (label.name, label.position) == ("r0@64", 64)
    assert label.inventory == (("temporal", "bfloat16", (2, 2, 3)), ("ring", "int32", (2, 2)))
    assert label.checksum == label_of("r0@64", 64, tensors()).checksum


@pytest.mark.parametrize("byte", [0, 11, 47])
def test_one_bit_changes_the_checksum(byte: int) -> None:
    held = tensors()
    data = held["temporal"].data.copy()
    data[byte] ^= 1
    other = held | {"temporal": replace(held["temporal"], data=data)}
    assert label_of("a", 1, other).checksum != label_of("a", 1, held).checksum


def test_a_state_that_comes_back_as_it_was_stored_is_no_event() -> None:
    audit = Audit(WHERE, AuditMode.RAISE)
    audit.stored(3, "r0@64", 64, tensors())
    audit.restored(5, "r0@64", 64, tensors())
    audit.stored(7, "r0@64", 64, tensors())
    assert audit.content == 0


def test_recording_counts_and_goes_on() -> None:
    audit = Audit(WHERE)
    audit.stored(3, "r0@64", 64, tensors())
    audit.restored(5, "r0@64", 64, tensors(1))
    audit.stored(6, "r0@64", 64, tensors(2))
    audit.misplaced("counted by the simulator")
    assert audit.content == 2


def test_raising_names_slot_label_and_content() -> None:
    audit = Audit(WHERE, AuditMode.RAISE)
    label = audit.stored(3, "r0@64", 64, tensors())
    with pytest.raises(AuditError) as caught:
        audit.restored(5, "r0@64", 64, tensors(1))
    other = label_of("r0@64", 64, tensors(1))
    said = (
        f"slot 5 is said to hold r0@64, 64 tokens, checksum {label.checksum:08x}; its bytes have {other.checksum:08x}"
    )
    assert said in str(caught.value)
    assert WHERE in str(caught.value)
    assert caught.value.exit_code is ExitCode.FAIL


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (tensors(dtype="float16"), "as temporal bfloat16 [2, 2, 3], ring int32 [2, 2]; it holds temporal float16"),
        (tensors(layers=3), "it holds temporal bfloat16 [3, 2, 3]"),
        ({"temporal": tensors()["temporal"]}, "it holds temporal bfloat16 [2, 2, 3]"),
    ],
    ids=["dtype", "layers", "a-tensor-less"],
)
def test_another_layout_is_said_before_bytes_are_compared(held: dict[str, TensorBytes], words: str) -> None:
    audit = Audit(WHERE, AuditMode.RAISE)
    audit.stored(3, "r0@64", 64, tensors())
    with pytest.raises(AuditError) as caught:
        audit.restored(5, "r0@64", 64, held)
    assert words in str(caught.value)


def test_a_name_under_which_nothing_was_stored() -> None:
    audit = Audit(WHERE, AuditMode.RAISE)
    with pytest.raises(AuditError, match="slot 5 is said to hold r9@64, 64 tokens; nothing was stored under that name"):
        audit.restored(5, "r9@64", 64, tensors())
