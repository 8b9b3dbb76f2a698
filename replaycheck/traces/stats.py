"""What a set of traces looks like: lengths, sharing, distances, and what checkpoint policies would find in it.

Everything is counted by value while the groups pass, so memory follows the number of different values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scipy.stats import chisquare

from replaycheck.schedule.requests import plan_requests
from replaycheck.schema.arm import CHUNK
from replaycheck.schema.policy import CheckpointPolicy, Policy, SglangPolicy, VllmPolicy
from replaycheck.schema.trace import Group
from replaycheck.traces.relations import Kind, Relation, relations

__all__ = ["LEVELS", "MEASURES", "POLICIES", "PolicyCount", "TraceStats", "quantiles_of"]

#: Quantiles that are shown.
LEVELS = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}

#: What is measured, with what a row is called. Shares are counted in thousandths.
MEASURES = {
    "turns": "requests per trace",
    "prompt": "prompt tokens",
    "output": "answer tokens",
    "new": "new tokens per request",
    "previous_share": "share of the prompt that the previous request has",
    "reuse_distance": "requests since the state that is continued",
    "forks": "forks per trace",
    "traces": "traces per group",
}

SHARE_UNIT = 1000

#: Policies that the expected hits are computed for.
POLICIES: tuple[Policy, ...] = (
    *(CheckpointPolicy(every=every) for every in (64, 256, 1024, 4096)),
    CheckpointPolicy(prompt_end=True),
    CheckpointPolicy(turn_end=True),
    CheckpointPolicy(every=64, turn_end=True),
    SglangPolicy(cache="sglang-no-buffer"),
    SglangPolicy(cache="sglang-extra-buffer"),
    VllmPolicy(cache="vllm-align"),
    VllmPolicy(cache="vllm-align", tail=64, retain="all"),
)

#: Prompt tokens of a group up to which its plans are made: 700,000 a second and policy, about 100 bytes each in memory.
PLANNED_TOKENS = 4_000_000


@dataclass
class PolicyCount:
    """Requests that hit, of all; prompt tokens that are computed again, of all."""

    hits: int = 0
    requests: int = 0
    computed: int = 0
    prompts: int = 0

    @property
    def recomputed(self) -> float:
        return self.computed / self.prompts if self.prompts else 0.0


@dataclass
class TraceStats:
    """Counts by value. policies: none are planned if it is empty."""

    policies: Sequence[Policy] = POLICIES
    counts: dict[str, Counter[int]] = field(default_factory=lambda: {name: Counter() for name in MEASURES})
    kinds: Counter[str] = field(default_factory=Counter)
    residues: Counter[int] = field(default_factory=Counter)
    planned: dict[str, PolicyCount] = field(default_factory=dict)
    groups: int = 0
    unplanned: int = 0
    shared: int = 0
    events: Counter[str] = field(default_factory=Counter)

    def add(self, group: Group) -> list[Relation]:
        """Count a group; returns its relations."""
        found = list(relations(group))
        self.groups += 1
        self.counts["traces"][len(group.traces)] += 1
        for trace in group.traces:
            parents = Counter(turn.parent for turn in trace.turns)
            self.counts["forks"][sum(children > 1 for children in parents.values())] += 1
            self.events.update(event.kind for event in trace.events)
        self.counts["turns"].update(Counter(each.trace for each in found).values())
        for each in found:
            self._add(each)
        self._plan(group, sum(each.prompt for each in found))
        return found

    def _add(self, relation: Relation) -> None:
        self.kinds[relation.kind] += 1
        self.residues[relation.prompt % CHUNK] += 1
        self.shared += relation.shared
        self.counts["prompt"][relation.prompt] += 1
        self.counts["output"][relation.output] += 1
        if relation.kind is not Kind.FIRST:
            self.counts["new"][relation.new] += 1
        if relation.previous is not None:
            self.counts["previous_share"][round(SHARE_UNIT * relation.previous / relation.prompt)] += 1
        if relation.back is not None:
            self.counts["reuse_distance"][relation.back] += 1

    def _plan(self, group: Group, prompts: int) -> None:
        if prompts > PLANNED_TOKENS:
            self.unplanned += 1
            return
        for policy in self.policies:
            count = self.planned.setdefault(policy.slug, PolicyCount())
            for plan in plan_requests(group, policy):
                start = plan.restore.position if plan.restore else 0
                count.hits += plan.restore is not None
                count.requests += 1
                count.prompts += plan.prompt
                count.computed += plan.prompt - start

    @property
    def requests(self) -> int:
        return self.counts["prompt"].total()

    @property
    def prompt_tokens(self) -> int:
        return sum(length * count for length, count in self.counts["prompt"].items())

    @property
    def near_grid(self) -> int:
        """Prompts that end one before, on or one after a chunk's end."""
        return sum(self.residues[residue] for residue in (CHUNK - 1, 0, 1))

    def uniform_p(self) -> float | None:
        """The p value of a χ² test that prompts end anywhere in a chunk; None with fewer than five for each place."""
        if self.requests < 5 * CHUNK:
            return None
        return float(chisquare([self.residues[residue] for residue in range(CHUNK)]).pvalue)

    def record(self) -> dict[str, object]:
        """For ``--json``: everything that is shown, shares as fractions."""
        return {
            "groups": self.groups,
            "requests": self.requests,
            "prompt_tokens": self.prompt_tokens,
            "shared_fraction": self.shared / self.prompt_tokens if self.prompt_tokens else None,
            "quantiles": {name: self._quantiles(name) for name in MEASURES},
            "kinds": dict(self.kinds),
            "events": dict(self.events),
            "residues": [self.residues[residue] for residue in range(CHUNK)],
            "near_grid": self.near_grid,
            "residues_uniform_p": self.uniform_p(),
            "policies": {
                name: {"hits": count.hits, "requests": count.requests, "recomputed_share": count.recomputed}
                for name, count in self.planned.items()
            },
            "groups_not_planned": self.unplanned,
        }

    def _quantiles(self, name: str) -> dict[str, float]:
        unit = SHARE_UNIT if name == "previous_share" else 1
        found = quantiles_of(self.counts[name])
        return {"n": self.counts[name].total()} | {level: value / unit for level, value in found.items()}


def quantiles_of(counts: Mapping[int, int], levels: Mapping[str, float] = LEVELS) -> dict[str, int]:
    """For each level p, the smallest value that a share p of the counted values doesn't exceed; nothing if there is none."""
    values, total = sorted(counts), sum(counts.values())
    found: dict[str, int] = {}
    seen, index = 0, -1
    for name, level in sorted(levels.items(), key=lambda item: item[1]) if total else ():
        while seen < level * total:
            index += 1
            seen += counts[values[index]]
        found[name] = values[max(index, 0)]
    return found


def stats_of(groups: Iterable[Group], policies: Sequence[Policy] = POLICIES) -> TraceStats:
    """The statistics of groups as they pass."""
    stats = TraceStats(policies)
    for group in groups:
        stats.add(group)
    return stats
