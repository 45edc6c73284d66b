"""HTTP without the domain: authentication, middleware, bodies, NDJSON, problem details."""
