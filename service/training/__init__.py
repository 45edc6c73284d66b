"""Trains a model from a team's own labels: cross-fitted heads on a frozen encoder, without torch."""
