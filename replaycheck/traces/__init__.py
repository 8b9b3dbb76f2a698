"""Trees of turns: read, write, validate, import, export, describe, draw like others; the suites that ship. No torch.

vocabulary    ascii-144: one token a byte; revocabulary and drift: subjects with another one
tree          a tree of turns as token paths; relations: how requests relate
read, write   trace files; checks: what a schema can't say about a group
suite         suite files, and what they name
specs, synth  groups whose answers are sampled
like, like_trace, pools
              traces with the statistics of others
describe, show, stats, stats_text
              sizes, trees and statistics for people
export        to formats of other tools (export_dag, export_openai)
importers     from formats of other tools; private: whose words are never shown
suites        the suites that ship, as code
"""
