"""What the service knows about each dataset: its settings, label set, thresholds and models."""
