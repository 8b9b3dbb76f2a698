"""Recordings of two arms → pairs, restore records, first divergences, attribution of cold-vs-warm. No torch."""
