"""Every record that is written or read, a file for each family, strict and with a JSON Schema. No torch."""
