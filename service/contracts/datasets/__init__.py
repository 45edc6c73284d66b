"""Settings of a dataset, its flag policy, and the trainings of its model."""
