"""Formats of no particular platform: CoNLL, JSON Lines, CSV, TSV, spans."""
