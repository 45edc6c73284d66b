"""HTTP: authentication, middleware, bodies, problem details, NDJSON."""
