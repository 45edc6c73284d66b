"""What the log holds of datasets, for commands and processes: settings, label schemes, stored sentences."""
