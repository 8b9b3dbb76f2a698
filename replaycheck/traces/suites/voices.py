"""Templates for the texts of the suites, by kind: what users, agents, tools and documents say. ``{word}`` is drawn.

Every text was written for this project. Kinds are used by name in the archetypes.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["VOICES"]

VOICES: Mapping[str, tuple[str, ...]] = {
    "guide": (
        "You are {name}, a {trade} who answers questions about {subject}. Be plain and kind.",
        "Rule {digit}: if somebody asks for {thing}, say where it is kept and who had it last.",
        "Open on {day} from {digit} to {number}; on other days, send people to {place}.",
        "Never promise the weather. If you don't know, say so in one sentence.",
        "Prices are in whole coins: {noun} costs {digit}, {noun} costs {number}.",
        "When a guest is in a hurry, name {place} first and stop there.",
        "Words to avoid: {quality}, {quality}, and anything about {subject}.",
    ),
    "tools": (
        "Tool {tool}({arg}, {arg}): returns {noun} as JSON; fails if {arg} is {quality}.",
        "You repair the service {module}. Call one tool at a time and wait for its result.",
        "Tool {tool}({arg}): at most {number} lines, newest first.",
        "Before a change to {file}, run the tests of {module}; after it, run them again.",
        "Never touch {module} on {day}. Write short notes; the next shift reads them.",
        "If {tool} answers {status}, try once more, then ask {name}.",
    ),
    "chat": (
        "Where did {name} leave {thing}?",
        "How do I {deed} {noun} when it is {quality}?",
        "Is {place} open on {day}?",
        "Why is my {noun} always so {quality}?",
        "Tell me about {subject} in one line.",
        "Could a {trade} {deed} {thing} alone?",
        "What costs more, {noun} or {noun}?",
        "And if it is {quality}?",
        "Thanks. What should {name} do first?",
    ),
    "task": (
        "The job {module} is {status} since {day}. Find the cause and mend it.",
        "{name} says that {func}() in {file} is {quality}. Check it and write a test.",
        "Move {func}() from {module} to {module}; keep the tests green.",
        "Count how often {event} happened on {day}, by shard.",
    ),
    "result": (
        '{{"tool": "{tool}", "status": "{status}", "{arg}": {number}, "rows": {digit}}}',
        "0{digit}:{number} {level} {module}: {event} ({arg}={number})",
        "{module}/{file}:{number}: {func}({var}) -> {type}",
        "+    {var} = {func}({var}, {number})",
        "-    {var} = {func}({var})",
        "test_{func}_{var} ... {status}",
        "{file}  {number} lines, changed on {day} by {name}",
    ),
    "code": (
        "def {func}_{var}({var}: {type}, {arg}: {type} = {number}) -> {type}:",
        "    for {var} in {func}({arg}):",
        "        if {var} > {number}: break",
        "    {var} += {digit} * {number}",
        "    # {name}: {noun} is {quality} here, see {file}",
        "    return {func}({var})",
    ),
    "document": (
        "On {day} {name} the {trade} {past} {thing} near {place}; the weather was {weather}.",
        "{name} {past} {thing} and {number} sacks of {noun}, which were {quality}.",
        "It was agreed that the {trade} may {deed} {noun} only at {place}, never on {day}.",
        "Of {number} jars, {digit} were {quality} and one was {colour}.",
        "Nobody saw who {past} {thing}; {name} thinks it was the {trade}.",
        "A note in {colour} ink says: {deed} {noun} before {day}.",
    ),
    "ask_document": (
        "Who {past} {thing}?",
        "How many sacks of {noun} were there?",
        "What happened on {day} at {place}?",
        "Which jars were {quality}?",
    ),
    "shots": (
        "Q: {deed} {number} {colour} jars, then {digit} more. A: {number}",
        "Q: is {noun} {quality}? A: no",
        "Q: the {trade} of {place}? A: {name}",
        "Q: opposite of {quality}? A: {quality}",
    ),
    "shot_question": (
        "Q: is {noun} {quality}? A:",
        "Q: the {trade} of {place}? A:",
        "Q: {deed} {digit} jars, then {digit}? A:",
    ),
    "summary": (
        "Summary so far: {module} was {status}; {tool} showed {event}.",
        "Open: {func}() in {file} line {number}. Done: {module} restarted on {day}.",
        "Keep in mind that {name} {past} {thing}.",
    ),
    "subtask": (
        "Look through {module} for {event} and report lines of {file}. Don't change anything.",
        "Read {file} and say in one line what {func}() does with {var}.",
    ),
    "edit": (
        "No, I meant {subject} on {day}: who {past} {thing}?",
        "Let me ask in another way. How would {name} {deed} {noun}?",
    ),
    "go_on": ("Go on.", "More, please.", "And then?", "Continue with {subject}.", "Next."),
}
