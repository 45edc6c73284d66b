"""Judges one sentence: probabilities and thresholds in, assessment out. Shared by stream, REST and command line."""
