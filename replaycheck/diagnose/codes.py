"""The one table of finding codes, each with its page of documentation.

RC1xx numeric, RC2xx position, RC3xx ownership, RC4xx speculation, RC5xx activation and layout, RC6xx parallel and
batch, RC9xx evidence. A code is stable: it is never given another meaning. A new code is one entry here;
``replaycheck explain`` and the report read the table; the signatures of
:mod:`replaycheck.diagnose.findings` name the code that they diagnosed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from replaycheck.errors import UsageError, choices

__all__ = ["CODES", "Code", "index", "lookup", "page"]


@dataclass(frozen=True)
class Code:
    """One kind of fault and the five parts of its page."""

    code: str
    title: str
    what: str
    why: str
    looks: str
    example: str
    do: str


_TABLE: Final = (
    Code(
        code="RC101",
        title="extra rounding through bf16 before the store",
        what="Every element of a stored state is a value that bf16 can hold, although the pool's dtype is wider. "
        "The state was rounded to bf16 on its way to the pool.",
        why="A wider pool is paid for in memory and gives bf16's precision: an rms error of 1.66e-3 for each "
        "store instead of 0 (fp32) or 2.1e-4 (fp16). Which tokens suffer depends on where a snapshot happened"
        " to be taken.",
        looks="The share of elements that fit bf16 is 1.0; chance gives 1.5e-5 in fp32 and 0.125 in fp16. Log-"
        "probabilities move little and the first other token comes late, so the outputs alone don't show it. "
        "Where only one kind of snapshot is affected, the errors have two modes.",
        example="A chunk kernel keeps its per-chunk states in the activation dtype. Snapshots inside an extend are "
        "gathered from that buffer; snapshots at its end are the fp32 accumulator. The first kind has this "
        "fault.",
        do="Take the snapshot from the fp32 accumulator and cast it once, to the pool's dtype. If bf16 is "
        "wanted, declare the pool bf16: then one cast is what the gates allow.",
    ),
    Code(
        code="RC102",
        title="restored state isn't one direct cast of the live state",
        what="The first restore of a conversation differs from the state that was never stored by something other "
        "than one cast to the pool's dtype, and the stored bits don't say what it was.",
        why="Store and restore must be a copy and one cast. Anything else is an error that no pool dtype "
        "explains, and it goes into every later token.",
        looks="Warm and split-rounded differ at a restore that no earlier faulty restore precedes, while the conv "
        "state of the first layer is the same and the audit finds no trace of bf16.",
        example="A cast that truncates instead of rounding to nearest; a state rounded at every chunk instead of "
        "once; a cast to fp16 on the way to bf16.",
        do="Compare rel_error with one_cast_error in the restores table. Equal up to a factor near 2 means "
        "another rounding; of order 1 means another state (position or slot). Run `replaycheck probe state` "
        "to test the cast alone.",
    ),
    Code(
        code="RC110",
        title="kernel outside the error that its recipe predicts",
        what="A kernel differs from the float64 oracle by more than the rounding points of its recipe can explain.",
        why="Comparisons between arms can't see a fault that all arms share. Only the oracle shows it.",
        looks="The kernel probe fails while warm still equals split-rounded.",
        example="A decay kept in bf16, where the recipe says fp32: the error grows with the length of the memory.",
        do="Run `replaycheck probe kernels` with this recipe and look at which output and which length fails "
        "first. Either the kernel is wrong or the recipe doesn't describe it.",
    ),
    Code(
        code="RC201",
        title="restored state belongs to another position",
        what="A slot was restored whose label names another position than the plan asked for.",
        why="Tokens between the two positions are counted twice or not at all in the recurrent layers, while the "
        "attention layers see all of them.",
        looks="Outputs differ from the first token after the restore, by much; the state error is of order 1.",
        example="A checkpoint index off by one chunk restores the state of 64 tokens earlier.",
        do="Compare the plan of the step with the label in the restores table; look for an off-by-one in the "
        "chunk index or in the rule for extends that end on the grid.",
    ),
    Code(
        code="RC202",
        title="conv state differs although the tokens are the same",
        what="After a restore the conv state of the first layer isn't byte-equal to the reference's. It depends on"
        " the last tokens only, and these are forced to be the same in both arms.",
        why="A short convolution with shifted inputs feeds wrong queries, keys and values into the state; the "
        "damage outlives the few tokens of the window.",
        looks="Conv bytes differ in the first layer at once. The rows often equal their neighbours: a shift.",
        example="The window starts at aligned-2 instead of aligned-3; conv and temporal state are saved for two "
        "positions.",
        do="Check the start of the conv window at the snapshot, the case of an extend shorter than the window, "
        "and that both parts of a slot are written by the same step.",
    ),
    Code(
        code="RC301",
        title="expected hit didn't happen",
        what="The schedule expected a checkpoint to be found, and the subject restored nothing there.",
        why="Outputs stay right, but the cache does less than it should: prompts are computed again. A test whose"
        " hits are missing proves less than it says.",
        looks="Fewer proven hits than expected ones; more computed tokens than planned.",
        example="A checkpoint evicted too early, or saved under a key that the next turn doesn't ask for.",
        do="Look for the first turn without a restore in the observations; compare the policy and the pool's "
        "size with the checkpoints that this turn needs.",
    ),
    Code(
        code="RC601",
        title="two arms ran different kernels",
        what="The kernels that really ran in the two arms of a cell aren't the same.",
        why="The cell then shows the kernels' rounding mixed with the effect it is meant to show.",
        looks="All positions differ by a little, from the first token on, without any restore.",
        example="A fallback for short extends picks the recurrent kernel in one arm only.",
        do="Pin the kernel of history, tail and answer, or compare arms whose calls have the same shapes.",
    ),
    Code(
        code="RC901",
        title="vacuous: no proven hit",
        what="A comparison with a warm arm in which no restore was proven, or in which no position was compared.",
        why="Cold against cold always agrees. Agreement proves nothing unless states were really restored.",
        looks="Proven hits are 0, or the cell has no positions.",
        example="Prompts shorter than the first checkpoint; a server that was started without its prefix cache.",
        do="Use traces with several turns that are longer than the checkpoint interval, and check that the "
        "subject reports its hits.",
    ),
    Code(
        code="RC902",
        title="too few traces for a verdict",
        what="A gate saw fewer traces than it declares as its minimum.",
        why="The trace is the unit of the statistics. A few traces can't bound a rate, however many tokens they have.",
        looks="The gate's verdict is inconclusive and the exit code is 6.",
        example="A gate with min_traces = 64 on a suite of six traces.",
        do="Give more traces, or judge with a gate file that this suite can decide (the preset quick uses `exact`).",
    ),
)

CODES: Final[Mapping[str, Code]] = MappingProxyType({entry.code: entry for entry in _TABLE})


def lookup(code: str) -> Code:
    """The entry of ``code``; case doesn't matter.

    Raises :class:`UsageError` with the known codes.

    >>> lookup("rc101").title
    'extra rounding through bf16 before the store'
    """
    entry = CODES.get(code.upper())
    if entry is None:
        raise UsageError(
            f"finding code {code!r} isn't known; the codes are {choices(CODES)}; `replaycheck explain` lists them"
        )
    return entry


def page(code: str) -> str:
    """The documentation of ``code`` as Markdown, in five parts."""
    entry = lookup(code)
    parts = (
        ("What it is", entry.what),
        ("Why this is bad", entry.why),
        ("How it looks", entry.looks),
        ("Example", entry.example),
        ("What to do", entry.do),
    )
    body = "\n\n".join(f"## {heading}\n\n{text}" for heading, text in parts)
    return f"# {entry.code}: {entry.title}\n\n{body}\n"


def index() -> str:
    """One line a code."""
    return "".join(f"{entry.code}  {entry.title}\n" for entry in CODES.values())
