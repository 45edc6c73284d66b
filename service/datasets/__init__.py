"""Datasets: settings in force, how they change, and the thresholds they are judged with."""
