"""The process of the API: its backend, its HTTP server and its threads."""
