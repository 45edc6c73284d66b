"""The embedded log: one SQLite file."""
