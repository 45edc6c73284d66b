"""One module a resource, each with its `router`; `service.api.app` joins them."""
