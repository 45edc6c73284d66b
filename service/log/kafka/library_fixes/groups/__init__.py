"""Members of a consumer group that get no partitions or no records."""
