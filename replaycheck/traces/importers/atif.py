"""ATIF trajectories (Harbor, Terminal-Bench 2): an object with steps of system, user and agent.

Token ids and log-probabilities in it are of the model that was recorded, not of ours: they are left out, after a look at
whether an answer's ids come back in the next prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replaycheck.schema.trace import Role

from .api import Context, Head, Importer
from .content import call_text, iso_time, part_texts
from .draft import DraftGroup
from .fields import Fields
from .log import Log
from .source import SourceFile
from .threads import Message, Thread

__all__ = ["IMPORTER"]

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "agent": "assistant"}


def _recognise(head: Head) -> str | None:
    record = head.first("schema_version", "steps")
    good = record is not None and str(record["schema_version"]).startswith("ATIF-")
    return "'schema_version' begins with 'ATIF-'" if good else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        for number, record in enumerate(source.records(), 1):
            group = DraftGroup(source, record.name("session_id", f"trajectory-{number}"))
            _trajectory(group, record, "agent", context.log)
            for index, child in enumerate(record.objects("subagent_trajectories", []), 1):
                context.log.note("sub-agent became a trace of its own")
                _trajectory(group, child, f"agent-{index}", context.log)
            yield group


def _trajectory(group: DraftGroup, record: Fields, name: str, log: Log) -> None:
    thread = Thread(group, name, log)
    model = record.object("agent").text("model_name", "") if "agent" in record else ""
    last, before = None, None
    for step in record.objects("steps"):
        message = _message(step, model, log)
        last = thread.add(last, message, ask=not step.get("is_copied_context"))
        if message.role == "assistant":
            before = _compare_ids(step, before, log)
        for text in _results(step, log):
            last = thread.add(last, Message("tool", text))
    thread.close()


def _message(step: Fields, model: str, log: Log) -> Message:
    source = step.text("source")
    if source not in _ROLES:
        step.fail("source", f"{source[:40]!r} is unknown; allowed: 'system', 'user', 'agent'")
    texts = list(part_texts(step, "message", log))
    texts += [call_text(c.text("function_name", ""), c.get("arguments")) for c in step.objects("tool_calls", [])]
    reasoning = step.text("reasoning_content", "") if source == "agent" else ""
    asked = step.text("model_name", model) if source == "agent" else ""
    return Message(_ROLES[source], "\n".join(texts), reasoning, asked, iso_time(step, "timestamp"))


def _results(step: Fields, log: Log) -> Iterator[str]:
    if "observation" in step:
        for result in step.object("observation").objects("results", []):
            if "subagent_trajectory_ref" in result:
                log.drop("reference to a trajectory in another file; it isn't opened")
            yield "\n".join(part_texts(result, "content", log))


def _compare_ids(step: Fields, before: tuple[int, ...] | None, log: Log) -> tuple[int, ...] | None:
    """The ids of prompt and answer, after comparing the prompt with those of the step before."""
    if "metrics" not in step:
        return None
    metrics = step.object("metrics")
    log.drop("log-probabilities of another model", "logprobs" in metrics)
    if "prompt_token_ids" not in metrics or "completion_token_ids" not in metrics:
        return None
    prompt = metrics.integers("prompt_token_ids")
    log.drop("token ids of another vocabulary; the words were encoded with ours")
    if before is not None:
        same = prompt[: len(before)] == before
        log.note("answer's ids are in the next prompt" if same else "answer's ids come back changed in the next prompt")
    return (*prompt, *metrics.integers("completion_token_ids"))


IMPORTER = Importer("atif", "ATIF trajectories (Harbor, Terminal-Bench 2)", _recognise, _read)
