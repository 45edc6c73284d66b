"""The decisions of the review queue, and what follows from them."""
