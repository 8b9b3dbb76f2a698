"""The vocabulary ``ascii-144`` in the formats of the `tokenizers` and `transformers` libraries.

A BPE model without merges over the 128 characters gives one token a character; special tokens are added
tokens. A character outside ASCII becomes ``?``, as :func:`replaycheck.traces.vocabulary.transliterate`
has it in the end. Unlike our own ``encode``, these libraries read ``<|end|>`` in a text as the special token.
"""

from __future__ import annotations

from typing import Final

from replaycheck.traces import vocabulary

__all__ = ["CHAT_TEMPLATE", "tokenizer_config", "tokenizer_definition"]

#: BOS, the turns, and the header of the answer: the same ids as the vocabulary's own functions give.
CHAT_TEMPLATE: Final = (
    "{{- '<|bos|>' }}"
    "{%- for message in messages %}"
    "{{- '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"
)


def tokenizer_definition() -> dict[str, object]:
    """The content of ``tokenizer.json``."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": token, "content": name, **_added_token_flags()} for token, name in vocabulary.SPECIAL_NAMES.items()
        ],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "?",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {chr(byte): byte for byte in range(vocabulary.TEXT_SIZE)},
            "merges": [],
        },
    }


def tokenizer_config(max_length: int) -> dict[str, object]:
    """The content of ``tokenizer_config.json``; ``max_length`` in tokens."""
    names = vocabulary.SPECIAL_NAMES
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": names[vocabulary.BOS],
        "eos_token": names[vocabulary.END],
        "pad_token": names[vocabulary.PAD],
        "added_tokens_decoder": {
            str(token): {"content": name, **_added_token_flags()} for token, name in names.items()
        },
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
    }


def _added_token_flags() -> dict[str, bool]:
    """A special token that is matched as it stands, spaces around it kept."""
    return {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
