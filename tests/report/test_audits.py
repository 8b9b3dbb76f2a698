"""The audit's table keeps to a page's width, and says in words where a finding is that its columns sum up."""

from __future__ import annotations

from itertools import product

import pytest

from replaycheck.report.audits import MOST, audit_table
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.result import AuditResult, Result

from .test_figures import result


def audited(layers: int, heads: int, pool: str = "fp32", bad: frozenset[tuple[int, int]] = frozenset()) -> Result:
    of = result()
    arm = next(arm for arm in of.arms if arm.name == "warm")
    audits = tuple(
        AuditResult(
            arm="warm", label="interior", layer=layer, head=head, states=4, bf16_like=3 * ((layer, head) in bad),
            min_share=0.0, max_share=0.5,
        )
        for layer, head in product(range(layers), range(heads))
    )  # fmt: skip
    return of.model_copy(update={"audits": audits, "arms": (arm.model_copy(update={"pool": PoolDtype(pool)}),)})


def test_a_small_model_has_a_column_a_layer_and_head() -> None:
    table = audit_table(audited(6, 2, bad=frozenset({(5, 1)})))
    assert table.headings[:3] == (("layer 0", "head 0"), ("layer 0", "head 1"), ("layer 1", "head 0"))
    (row,) = table.rows
    assert row.counts[0] == ("0 / 4", False) and row.counts[-1] == ("3 / 4", True)
    assert not table.summed, "the column says where"


def test_a_model_of_many_heads_has_a_column_a_layer() -> None:
    table = audit_table(audited(6, 32, bad=frozenset({(2, 7), (2, 9)})))
    assert table.headings[2] == ("layer 2", "32 heads")
    (row,) = table.rows
    assert row.counts[2] == ("6 / 128", True) and row.counts[1] == ("0 / 128", False)
    assert table.summed and row.where == "KDA layer 2, heads 7 and 9"


def test_a_large_model_has_one_column_and_words() -> None:
    table = audit_table(audited(48, 32, bad=frozenset({(40, 7)})))
    assert table.headings == (("48 layers", "32 heads"),)
    assert (table.rows[0].counts, table.rows[0].where) == ((("3 / 6,144", True),), "KDA layer 40, head 7")


@pytest.mark.parametrize("layers", [1, 6, 12, 13, 48])
@pytest.mark.parametrize("heads", [1, 2, 32, 64])
def test_columns_are_never_more_than_a_page_holds(layers: int, heads: int) -> None:
    assert len(audit_table(audited(layers, heads)).headings) <= MOST


def test_a_bf16_pool_has_no_findings_since_its_bits_cant_show_any() -> None:
    table = audit_table(audited(48, 32, pool="bf16", bad=frozenset({(40, 7)})))
    assert (table.rows[0].counts, table.rows[0].where) == ((("6,144", False),), "")
