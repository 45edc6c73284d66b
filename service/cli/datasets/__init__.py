"""Commands about datasets and their thresholds."""
