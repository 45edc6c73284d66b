"""What every request passes before its route, outermost first.

    RequestContext ─ request id, security headers, metrics, log line; an uncaught error becomes a problem
    (CORS)         ─ only if origins are set
    AccessControl  ─ draining, key, content type
    RequestLimits  ─ size of the body, time

All are plain ASGI, so responses stream through them.
"""
