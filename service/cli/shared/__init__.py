"""What several commands share: options, terminal output, tables."""
