"""What is under test: the lab, a transformers model, a server. One protocol."""
