"""HTTP without the domain: connections, middleware, bodies, NDJSON, problem details."""
