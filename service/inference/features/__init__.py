"""Word features for trained heads: hashed text features and pooled encoder states."""
