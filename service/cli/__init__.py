"""One module a command; `service.cli.main` registers them."""
