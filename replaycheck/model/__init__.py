"""The model that ships: its configuration, its files, and (in ``train``) how it was made.

``config``, ``tensors``, ``checkpoint`` and ``card`` read checkpoints and import no torch when imported;
``folder``, ``tokenizer`` and ``initial`` write them. Nothing here runs the network for replay: that is
the lab's task.
"""

from replaycheck.model.card import model_card
from replaycheck.model.checkpoint import Checkpoint, digest, load_weights, open_checkpoint
from replaycheck.model.config import LayerKind, ModelConfig, load_config
from replaycheck.model.tensors import TensorSpec, expected_tensors, parameter_count

__all__ = [
    "Checkpoint",
    "LayerKind",
    "ModelConfig",
    "TensorSpec",
    "digest",
    "expected_tensors",
    "load_config",
    "load_weights",
    "model_card",
    "open_checkpoint",
    "parameter_count",
]
