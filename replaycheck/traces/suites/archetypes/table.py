"""The archetypes by name, in the order of their numbers: the one list of them."""

from __future__ import annotations

from collections.abc import Mapping

from .agents import agent_tool_loop, context_compaction, subagent_fanout
from .branches import edit_earlier_turn, parallel_sampling_beam, regenerate_and_fork
from .chats import chat_long_system, empty_turns, long_document_qa, one_token_and_full_hit, reasoning_stripped
from .edges import chunk_edges, long_decode_drift
from .scene import Archetype
from .serving import eviction_pressure, preemption, shared_fewshot, spec_decode

__all__ = ["ARCHETYPES"]

_ALL: tuple[Archetype, ...] = (
    chat_long_system,
    agent_tool_loop,
    reasoning_stripped,
    regenerate_and_fork,
    edit_earlier_turn,
    context_compaction,
    parallel_sampling_beam,
    spec_decode,
    preemption,
    shared_fewshot,
    chunk_edges,
    one_token_and_full_hit,
    empty_turns,
    long_document_qa,
    eviction_pressure,
    subagent_fanout,
    long_decode_drift,
)

ARCHETYPES: Mapping[str, Archetype] = {each.__name__: each for each in _ALL}
