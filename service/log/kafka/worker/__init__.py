"""A worker's part of Kafka: its membership in the group, its transactions, and the state of its partitions."""
