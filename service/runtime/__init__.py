"""Processes and threads: opens the log, runs worker and server, supervises them."""
