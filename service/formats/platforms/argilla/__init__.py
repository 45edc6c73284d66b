"""Argilla: reader, writer, questions."""
