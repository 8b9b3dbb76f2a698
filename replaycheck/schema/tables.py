"""The columns of the tables of a run directory (parquet), as arrow schemas. A contract: docs/reference/files.md.

observations/  one row a scored position and arm
pairs/         one row a scored position and cell
restores/      one row a restore, layer and head, for each cell whose candidate is warm
divergences    one row a cell, experiment, kind and branch
"""

from __future__ import annotations

import pyarrow as pa

_DICT = pa.dictionary(pa.int32(), pa.string())

_Columns = tuple[tuple[str, pa.DataType, str], ...]
"""Name, type and meaning of each."""

_OBSERVATIONS: _Columns = (
    ("trace", _DICT, "its id"),
    ("branch", pa.int32(), "a path of the trace's tree, 0-based"),
    ("turn", pa.int32(), "how many assistant turns come before it on its path"),
    ("position", pa.int32(), "of the predicted token, counted from the path's bos = 0"),
    ("role", _DICT, "of the turn"),
    ("token", pa.int32(), "id of the predicted token"),
    ("arm", _DICT, "its name, as in result.json"),
    ("experiment", _DICT, "forced or free"),
    ("logprob", pa.float64(), "nat, of token; computed in float64 from the recorded logits"),
    ("top1", pa.int32(), "id of the most likely token; null: not seen"),
    ("top1_logprob", pa.float64(), "nat"),
    ("margin", pa.float64(), "nat, best minus second best"),
    ("top20", pa.list_(pa.struct([("id", pa.int32()), ("logprob", pa.float64())])), "best first"),
    ("logits_digest", pa.string(), "blake2b-64 of the logits' fp32 bytes; null if the subject doesn't show them"),
    ("restore", pa.int32(), "tokens covered by the restored state; null where nothing was restored"),
    ("offset_from_restore", pa.int32(), "position minus restore; null where nothing was restored"),
    ("cluster", _DICT, "traces that share text; the unit of statistics"),
)

_PAIRS: _Columns = (
    ("cell", _DICT, "its name, as in result.json"),
    ("experiment", _DICT, "forced or free"),
    ("cluster", _DICT, "as in observations"),
    ("trace", _DICT, "its id"),
    ("branch", pa.int32(), "as in observations"),
    ("turn", pa.int32(), "as in observations"),
    ("position", pa.int32(), "as in observations"),
    ("role", _DICT, "of the turn"),
    ("dlogp", pa.float64(), "nat, candidate minus reference, of the forced token; null: no number"),
    ("kl", pa.float64(), "nat, full vocabulary, float64, KL(reference || candidate); null from saved runs"),
    ("flip", pa.bool_(), "the two arms have different top-1 tokens; null: not seen"),
    ("margin", pa.float64(), "nat, of the reference"),
    ("bits_equal", pa.bool_(), "all logits have the same bits; null: not seen to differ, and not all seen"),
    ("offset_from_restore", pa.int32(), "of the candidate; null where it restored nothing"),
)

_RESTORES: _Columns = (
    ("cell", _DICT, "its name"),
    ("trace", _DICT, "its id"),
    ("restore", _DICT, "BRANCH/TURN@POSITION"),
    ("layer", pa.int32(), "model layer, 0-based"),
    ("head", pa.int32(), "value head, 0-based"),
    ("rel_error", pa.float64(), "Frobenius norm of the difference over that of the reference"),
    ("max_error", pa.float64(), "largest absolute difference of an element"),
    ("one_cast_error", pa.float64(), "rel_error that one direct cast of the reference to the pool dtype costs"),
    ("bf16_share", pa.float64(), "share of stored elements whose value fits bf16; null if under 64 are non-zero"),
    ("conv_equal", pa.bool_(), "conv state equal to the reference's, byte for byte (per layer)"),
    ("label", _DICT, "how it was written: interior, interior-grid, final, final-grid or decode"),
    ("dtype", _DICT, "of the pool"),
)

_DIVERGENCES: _Columns = (
    ("cell", _DICT, "its name"),
    ("trace", _DICT, "its id"),
    ("branch", pa.int32(), "as in observations"),
    ("turn", pa.int32(), "where it parts; where the branch ends if censored"),
    ("position", pa.int32(), "where it parts; where the branch ends if censored"),
    ("offset_from_restore", pa.int32(), "tokens since the first restore, there; null in grid cells"),
    ("kind", _DICT, "bits, argmax or tolerance"),
    ("token_a", pa.int32(), "top-1 token of the reference, or what it said in a free run; null: censored"),
    ("token_b", pa.int32(), "of the candidate"),
    ("margin", pa.float64(), "nat, of the reference"),
    ("dlogp", pa.float64(), "nat, candidate minus reference"),
    ("censored", pa.bool_(), "no divergence until the branch's last scored position"),
    ("experiment", _DICT, "forced; or free, where the kind is argmax and tokens are those that the arms said"),
)

_TABLES = {"observations": _OBSERVATIONS, "pairs": _PAIRS, "restores": _RESTORES, "divergences": _DIVERGENCES}

TABLES = {table: pa.schema([(name, kind) for name, kind, _ in columns]) for table, columns in _TABLES.items()}
OBSERVATIONS, PAIRS, RESTORES, DIVERGENCES = TABLES.values()

MEANINGS = {table: {name: meaning for name, _, meaning in columns} for table, columns in _TABLES.items()}
"""What each column of each table means, with its unit and when it is null."""
