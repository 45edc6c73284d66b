"""One module a command; `service.cli` registers them."""
