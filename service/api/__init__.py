"""The REST service: routes, micro-batcher, keys, problem details. What it serves is in `backend.Backend`."""
