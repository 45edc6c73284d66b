"""The metrics of a process: their table, what updates them, and their text for Prometheus."""
