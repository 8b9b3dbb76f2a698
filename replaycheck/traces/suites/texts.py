"""The texts of the quick suite, written for this project: dialogue, code, tool output and documents, all ASCII.

Lengths are in characters, which are tokens here.
"""

from __future__ import annotations

GARDEN_GUIDE = """\
You are Fern, the guide of a small botanical garden on a windy coast. The garden has four parts: the fog house, the \
walled orchard, the salt meadow and the moon beds, which flower at night. Answer in one or two plain sentences, name \
the part you speak of, and never promise weather. Open from 9 to 17."""

GARDEN_QUESTIONS = (
    "Where do I find the night flowers?",
    "And which of them smell best?",
    "Is the orchard open at noon?",
    "Thanks! What is the shortest walk?",
)

STATION_TOOLS = """\
You look after a tide station.
Tools: read_gauge(name), list_alarms(), set_pump(id, on).
Call one tool at a time, then say what you saw."""

STATION_TASK = "Water stands in the east basin. Find out why."

STATION_RESULTS = (
    '{"gauge": "east", "level_cm": 212, "limit_cm": 180, "trend": "rising"}',
    '{"alarms": [{"id": "P2", "text": "pump stopped, breaker open"}]}',
    '{"pump": "P2", "on": true, "flow_l_s": 41.5}',
)

STATION_THANKS = "Good. Write one line for the log book."

REVIEWER = "You review Python code. Be brief."

MEDIAN = """\
def median(values):
    values = sorted(values)
    return values[len(values) // 2]

What is wrong here?"""

MEDIAN_FOLLOW_UPS = (
    "Show the fix for an even length.",
    "Write one test that fails now.",
    "Is sorting needed at all?",
    "Now with type hints, please.",
)

RIDDLER = "We play twenty questions. You have thought of a thing; answer yes or no, or give a short hint."

BRIEF = "Be brief."

# 48, 49 and 50 characters: after BRIEF these prompts end at 63, 64 and 65.
SHORT_QUESTIONS = (
    "Which birds sleep on the wing, far from a coast?",
    "How would a sailor know which lighthouse he sees?",
    "In a warm room, which common metal remains liquid?",
)

SHORT_FOLLOW_UPS = (
    "How long do they stay up there before they come down to land again, and what do they eat?",
    "Who chose the pattern of each one, and where would a sailor of that time have looked it up?",
    "What was it used for in old workshops, and why is it handled with such care today?",
)

SHORT_CLOSINGS = (
    "Then tell me one thing about it that most people get wrong, in a single sentence.",
    "Good. Now say the same for a child of six, without a single number in it.",
    "I see. Which book would you give to somebody who wants to know more about that?",
)

# 112, 113 and 114 characters: after BRIEF these prompts end at 127, 128 and 129.
LONG_QUESTIONS = (
    "My sourdough rises well at night, but by the morning it has sunk and smells of vinegar. What should I try first?",
    "Our choir has nine altos, four tenors and two basses. How would you seat them in a small room with a low ceiling?",
    "Between Monday and Friday I cycle along the same canal, and on each day the wind is against me. "
    "Can that be right?",
)

LONG_FOLLOW_UPS = (
    "I tried that last week and it made things worse; is there something simpler that I could do?",
    "That is not possible with us, there is a piano in the way. Do you have another idea?",
    "Explain it once more, please, but start from the end this time.",
)

LOGBOOK = """\
Logbook of the ketch Amity, third week. Monday: calm, we mended the small sail and counted the water casks, eleven \
full and two half. Tuesday: wind from the north, a cask broke loose and was lost. Wednesday: rain all day, we filled \
one cask. Thursday: passed the white rock at noon. Friday: nothing to report but whales.
How many casks are full?"""

LOGBOOK_QUESTIONS = (
    "Here is a note from the cook: he used half a cask for soup on Friday and told nobody. Does this change the count?",
    "The harbour master asks for a list of events with the day and the wind, one event on each line. Write the first "
    "two of them, please.",
)

TICKET = "The nightly export stops after an hour. I will paste what I have; tell me which line to look at first."

EXPORT_CODE = """\
def export(rows, target, size=500):
    batch = []
    for row in rows:
        batch.append(clean(row))
        if len(batch) == size:
            target.write(batch)
    target.close()"""

EXPORT_LOG = """\
01:00:02 INFO  export started, 1048576 rows
01:20:41 WARN  memory 61 percent
01:41:13 WARN  memory 83 percent
01:58:57 ERROR killed by the system, signal 9
01:58:58 INFO  0 rows of the last batch were written"""
