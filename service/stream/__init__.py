"""The logs a worker reads and writes, and the worker itself."""
