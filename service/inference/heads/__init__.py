"""Heads: from the outputs of a graph to the class probabilities of words."""
