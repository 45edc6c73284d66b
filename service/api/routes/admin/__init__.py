"""What administrators manage besides keys."""
