"""The suites that ship, as code: specs and the texts written for them."""
