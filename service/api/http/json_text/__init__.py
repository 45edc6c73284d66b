"""JSON of requests. Large bodies are bounded before they are parsed, and parsed in parts, so that other threads run in between."""
