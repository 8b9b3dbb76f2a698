"""``--subject transformers``: a local model with the library's own forward and cache, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

import torch

from replaycheck.compare.record import ArmRecording
from replaycheck.errors import UsageError
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Activation, Arm, Compiler, PoolDtype
from replaycheck.schema.policy import CheckpointPolicy
from replaycheck.schema.trace import Group
from replaycheck.subjects.protocol import Description, SubjectOptions, Translated
from replaycheck.subjects.server.words import Words, choose_words, translate

from .load import Loaded, import_transformers, load_model
from .play import Play
from .state import shown

__all__ = ["TransformersSubject", "factory"]

POLICY = CheckpointPolicy(prompt_end=True)
"""A state is kept at each prompt's end, as somebody does who generates from a deep copy of a cache."""

_NOT_SEEN = (
    "slots and copies between them: a cache object stands for a slot, and a deep copy for a store or a restore",
    "pools of another precision: states are kept as the model keeps them",
    "a state inside a call: where a checkpoint lies inside a prompt, warm and split cut the call there",
)


class TransformersSubject:
    """A model of a folder.

    Args:
        words: how traces become the model's token ids, or None: as they are, folded if they don't fit.
    """

    def __init__(self, loaded: Loaded, dtype: str, words: Words | None = None) -> None:
        self._loaded, self._dtype, self._words = loaded, dtype, words
        self._digest = _digest(loaded, dtype)

    def describe(self) -> Description:
        """Who it is; whether its states can be read is tried on two tokens."""
        loaded, states = self._loaded, self._shows_states()
        hidden = () if states else ("recurrent states: its cache doesn't show them in one shape",)
        return Description(
            name=f"transformers/{loaded.folder.resolve().name}",
            digest=self._digest,
            vocabulary=loaded.vocabulary,
            versions={"transformers": loaded.version, "torch": torch.__version__},
            semantics=f"logits of {type(loaded.module).__name__} in {self._dtype}, as float32",
            states=states,
            compilers=frozenset({Compiler.COLD, Compiler.WARM, Compiler.SPLIT}),
            policy=POLICY,
            pool=PoolDtype.FP32 if self._dtype == "fp32" else None,
            wholes=True,
            batches=True,
            deterministic=True,
            parallel=True,
            not_seen=(*_NOT_SEEN, *hidden),
        )

    def translate(self, group: Group) -> Translated:
        """``group`` in the ids of the model."""
        return translate(group, self._loaded.vocabulary, self._words)

    def replay(self, schedules: Sequence[Schedule]) -> list[ArmRecording]:
        """One schedule after the other.

        Raises:
            UsageError: an arm asks for what this subject doesn't have.
        """
        for schedule in schedules:
            if reason := _cannot(schedule):
                raise UsageError(f"arm {schedule.arm.name}: transformers has no {reason}; take it out of the suite")
        return [Play(schedule, self._loaded).recording() for schedule in schedules]

    @torch.no_grad()
    def _shows_states(self) -> bool:
        module = self._loaded.module
        output = module(torch.ones(1, 2, dtype=torch.long, device=module.device), use_cache=True)
        return shown(output[self._loaded.cache_name]) is not None


def factory(options: SubjectOptions) -> TransformersSubject:
    """What ``--subject transformers`` calls. Its settings: dtype (fp32 or bf16) and tokens (ids, folded or text).

    Raises:
        UsageError: no folder was given, or no model is in it. EngineEnvironmentError: the library isn't installed.
    """
    import_transformers("--subject transformers", options.device)
    if options.model is None:
        raise UsageError(
            "--subject transformers: give --model DIR, a local folder; tiny random models of every architecture are "
            "checked by `replaycheck probe architectures`"
        )
    dtype = options.setting("dtype", "fp32") or "fp32"
    loaded = load_model(options.model, dtype, options.device)
    torch.set_num_threads(1)
    words = choose_words(options.setting("tokens"), loaded.folder.name, loaded.vocabulary, _tokenizer(loaded.folder))
    return TransformersSubject(loaded, dtype, words)


def _tokenizer(folder: Path) -> Callable[[str], list[int]] | None:
    """The folder's own tokenizer, if there is one."""
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json")):
        return None
    transformers: Any = import_transformers("--subject transformers")
    made = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return lambda text: list(made(text, add_special_tokens=False)["input_ids"])


def _cannot(schedule: Schedule) -> str | None:
    arm: Arm = schedule.arm
    reasons = {
        f"pool in {arm.pool}: states are kept as the model keeps them": arm.pool is not PoolDtype.FP32,
        f"compiler {arm.compiler}": arm.compiler is Compiler.SPLIT_ROUNDED,
        "speculation windows": arm.rollback is not None,
        "padded passes of a plan": arm.padding is not None,
        "tensor parallelism": arm.tensor_parallel > 1,
        "activation outside its kernels": arm.activation is not Activation.INSIDE,
        "free runs": schedule.experiment == "free",
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _digest(loaded: Loaded, dtype: str) -> str:
    """BLAKE2b (128 bits) over the configuration, the weights, the versions and the dtype."""
    state = blake2b(f"{loaded.version} {torch.__version__} {dtype}".encode(), digest_size=16)
    for path in sorted([loaded.folder / "config.json", *loaded.folder.glob("*.safetensors")]):
        with path.open("rb") as handle:
            state.update(file_digest(handle, blake2b).digest())
    return state.hexdigest()
