"""The worker: polls record batches, assesses them, commits results and state."""
