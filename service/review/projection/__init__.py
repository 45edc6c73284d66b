"""Projects the review and decision topics into SQLite tables."""
