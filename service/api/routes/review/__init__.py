"""The review queue over REST: items, claims, decisions, counts and live updates."""
