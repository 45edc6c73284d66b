"""Class statistics per partition: one reader, one aggregator, one read-only view."""
