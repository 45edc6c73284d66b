"""Scoring processes: they answer `POST /v1/score` beside the process that answers everything."""
