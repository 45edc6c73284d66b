"""Words to subwords to probabilities, and back to words."""
