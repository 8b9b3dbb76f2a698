"""A finished run as a page, a terminal summary, junit.xml, and text for CI; from its directory alone. No torch.

write, saved            everything that is rendered from a run, and the run as it is read
html, content           report.html: the page, and what its templates show; budget: what a long list keeps; data: result.json
verdict                 the answer in words, for the page, the terminal and the summary
terminal, first, rollup what ``run`` prints: the summary, the first divergence, the matrix in ten lines
summary, junit          summary.md and junit.xml; gate_lines: what they say of a gate; github, github_step: annotations
matrix, turns, views, paths, audits, floors
                        tables of the page
equivalence, parted, aligned, begins, attribution, heat, plots, strip
                        its charts; figure: SVG in the page's colours; streams: numbers from blocks; shown: which comparisons
text, tokens, breaks, privacy
                        numbers and tokens as a reader should see them, where names break, whose words are shown
serve                   one report on loopback
..._text, ..._html      tables of other verbs: probe_text, probe_html, architectures_text, architectures_html, selftest_text,
                        selftest_html, sweep_text, sweep_html, state_text, verify_text, server_options_text
"""
