"""One module per resource, each with its `router`; `service.api.app` joins them."""
