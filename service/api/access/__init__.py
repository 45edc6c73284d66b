"""Who calls, and what they may call."""
