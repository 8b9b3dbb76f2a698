"""A trace file: JSON lines, one group a line.

A group is one or more traces with an explicit order of requests. A trace is a tree of turns; each turn has text and the
token ids of the group's vocabulary. A request asks for one assistant turn, given the path from the root to it; requests
that name an earlier turn again are rewinds and branches. Token ids of a turn are ``[role] + content + [end]``; a path
starts with one ``[bos]`` that belongs to no turn.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from .base import Record

TRACE_SCHEMA: Final = "replaycheck.trace/1"

Role = Literal["system", "user", "assistant", "tool"]
Identifier = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class Sampled(Record):
    """How an assistant turn was made: sampled by the float64 oracle from a model."""

    model: str = Field(description="digest of the model's config and weights")
    seed: int = Field(ge=0)
    temperature: float = Field(ge=0)
    limit: int = Field(ge=0, description="the most tokens that could be sampled")
    least: int = Field(default=0, ge=0, description="tokens before which the end wasn't sampled")


class Turn(Record):
    """One message of the tree."""

    id: Identifier
    parent: Identifier | None = Field(description="the turn before it; null for the first of a path")
    role: Role
    text: str
    tokens: tuple[int, ...] = Field(description="[role] + content + [end] in the group's vocabulary")
    sampled: Sampled | None = None


class Branch(Record):
    """A marker: from here the conversation goes on in more than one way."""

    kind: Literal["branch"]
    turn: Identifier


class Rewind(Record):
    """A marker: the client went back to an earlier turn."""

    kind: Literal["rewind"]
    turn: Identifier
    to: Identifier


class Speculation(Record):
    """A speculation window while an answer is decoded: drafted tokens (wrong ones too) and how many were accepted."""

    kind: Literal["speculation"]
    turn: Identifier
    offset: int = Field(ge=0, description="token of the answer at which the window starts")
    drafts: tuple[int, ...]
    accepted: int = Field(ge=0)


class Preemption(Record):
    """The request is taken off the engine and resumed later.

    ``after`` counts the tokens that it has computed, those of a hit not among them. It waits for the next requests to
    be over, unless they continue its answer or there is none.
    """

    kind: Literal["preemption"]
    turn: Identifier
    after: int = Field(ge=0)
    resume: Literal["recompute", "swap"] = "recompute"


class BatchMates(Record):
    """Requests that run in one batch with this one, by continuous batching."""

    kind: Literal["batch"]
    turn: Identifier
    mates: tuple[Identifier, ...]


class Fork(Record):
    """This answer continues the live state of another answer to the same prompt after so many of its tokens.

    Parallel sampling is a fork at offset 0; a beam search forks at each reorder, more than once from a beam that is
    duplicated and never from one that is dropped.
    """

    kind: Literal["fork"]
    turn: Identifier
    source: Identifier = Field(description="the answer whose state is copied; both begin with the same tokens")
    offset: int = Field(ge=0, description="tokens of the answer that both share")


class Offload(Record):
    """When this answer is over, the states that its request stored move to the host; a hit loads them back."""

    kind: Literal["offload"]
    turn: Identifier


class AbortedLoad(Record):
    """The state that this answer's request hits on the host can't be loaded: the load is aborted after it got a slot."""

    kind: Literal["aborted-load"]
    turn: Identifier


Event = Annotated[
    Branch | Rewind | Speculation | Preemption | BatchMates | Fork | Offload | AbortedLoad,
    Field(discriminator="kind"),
]


class Trace(Record):
    """A tree of turns with events. ``cluster`` joins traces that share text, for the statistics."""

    id: Identifier
    turns: tuple[Turn, ...] = Field(min_length=1)
    events: tuple[Event, ...] = ()
    cluster: Identifier | None = None


class Request(Record):
    """One request: produce (or score) this assistant turn of this trace."""

    trace: Identifier
    turn: Identifier


class Source(Record):
    """Where an imported group comes from and what the import did to it. Reports hide the tokens of such a group."""

    format: str = Field(description="name of the importer")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="of the file's bytes")
    text: Literal["private", "generated"] = Field(
        description="private: words of the source; generated: characters made from block ids or lengths"
    )
    licence: str = Field(default="unknown", description="of the source; nothing in a trace format says it")
    scale: float = Field(default=1.0, gt=0, le=1, description="share of each turn's characters that was kept")
    anonymised: bool = False


class Group(Record):
    """One line of a trace file: what a file, a resume and a worker handle."""

    schema_: Literal["replaycheck.trace/1"] = Field(alias="schema")
    group: Identifier
    archetype: str = ""
    vocabulary: str
    traces: tuple[Trace, ...] = Field(min_length=1)
    requests: tuple[Request, ...] = Field(min_length=1)
    source: Source | None = Field(default=None, description="set by an import")
