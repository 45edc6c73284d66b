"""The review queue as SQLite tables, projected from the topics."""
