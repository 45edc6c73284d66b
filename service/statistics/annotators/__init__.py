"""How far the labels of each annotator agree with the model: integer sums, and the figures from them."""
