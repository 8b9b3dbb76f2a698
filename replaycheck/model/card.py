"""Facts about a model directory, for `replaycheck model card`: from its files, without torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from replaycheck.model.checkpoint import Checkpoint, digest, open_checkpoint
from replaycheck.model.tensors import parameter_count

__all__ = ["ModelCard", "model_card", "read_card"]

_CARD_FILE: Final = "README.md"
_RESULT_PREFIX: Final = "Result:"
# A card is a page; more is not read.
_MAX_CARD_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class ModelCard:
    """What a user asks of a model before using it; ``layers`` is a string such as ``KKAKKKAK`` (K = KDA, A = MLA)."""

    name: str
    parameters: int
    layers: str
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    kda_heads: int
    kda_head_dim: int
    conv_width: int
    mla_heads: int
    kv_lora_rank: int
    max_length: int
    dtypes: tuple[str, ...]
    weight_bytes: int
    state_bytes: int
    digest: str
    result: str | None


def model_card(path: Path) -> dict[str, object]:
    """The card of the model directory ``path`` as plain data. Raises :class:`UsageError` as `open_checkpoint`."""
    return asdict(read_card(path))


def read_card(path: Path) -> ModelCard:
    """The card of the model directory ``path``; ``result`` is None where its README.md states none."""
    checkpoint = open_checkpoint(path)
    config = checkpoint.config
    return ModelCard(
        name=path.resolve().name,
        parameters=parameter_count(config),
        layers="".join("K" if kind == "kda" else "A" for kind in config.layer_kinds),
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        vocab_size=config.vocab_size,
        kda_heads=config.kda_heads,
        kda_head_dim=config.kda_head_dim,
        conv_width=config.conv_width,
        mla_heads=config.mla_heads,
        kv_lora_rank=config.kv_lora_rank,
        max_length=config.max_length,
        dtypes=tuple(sorted({tensor.dtype for tensor in checkpoint.tensors.values()})),
        weight_bytes=checkpoint.weights.stat().st_size,
        state_bytes=_state_bytes(checkpoint),
        digest=digest(path),
        result=_result_line(path / _CARD_FILE),
    )


def _state_bytes(checkpoint: Checkpoint) -> int:
    """One sequence's recurrent state: fp32 matrices and bf16 convolution columns of every KDA layer."""
    config = checkpoint.config
    temporal = config.kda_heads * config.kda_head_dim**2 * 4
    columns = 3 * config.kda_width * (config.conv_width - 1) * 2
    return len(config.kda_layers) * (temporal + columns)


def _result_line(file: Path) -> str | None:
    """The line of the card that starts with ``Result:``."""
    if not file.is_file():
        return None
    with file.open(encoding="utf-8", errors="replace") as stream:
        text = stream.read(_MAX_CARD_BYTES)
    lines = (line.strip() for line in text.splitlines())
    return next((line.removeprefix(_RESULT_PREFIX).strip() for line in lines if line.startswith(_RESULT_PREFIX)), None)
