"""The review queue, its ranker and the decisions of reviewers. Everything is built from topics and can be built again."""
