"""A finished run as a page, a terminal summary, junit.xml, and text for CI; from its directory alone. No torch."""
