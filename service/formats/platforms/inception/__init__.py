"""INCEpTION: documents of its external recommender protocol."""
