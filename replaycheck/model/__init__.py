"""The model that ships: its configuration, its files, and (in ``train``) how it was made. Nothing here runs the network.

config, tensors          the geometry, and the tensors that a checkpoint of it must hold
checkpoint, header, card a folder opened, its safetensors checked, its facts; no torch is imported for that
fields                   a JSON object whose author isn't trusted
folder, tokenizer, initial
                         a folder written, for replaycheck, transformers and engines
gguf_export, gguf_file   the same for llama.cpp
gguf_tiny                tiny random models of llama.cpp's architectures; gguf_tiny_layers, gguf_draws
golden                   what the float64 oracle says, to hold engines against
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
