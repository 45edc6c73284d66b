"""What the queue counts and estimates: overviews, filters, batches, recall and agreement."""
