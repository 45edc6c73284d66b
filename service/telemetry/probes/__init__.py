"""Answers probes of metrics and health in a process of its own."""
