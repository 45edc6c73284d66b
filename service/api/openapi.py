"""The OpenAPI document and its page. All assets are served from here, so it works without internet access."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from fastapi.openapi.utils import get_openapi
from starlette.responses import FileResponse, HTMLResponse, Response

from service.api.http.path_keys import ADDRESS_PREFIXES
from service.api.http.problems import PROBLEM_MEDIA_TYPE, NotFoundError, Problem
from service.api.http.request_schemas import close_request_bodies

if TYPE_CHECKING:
    from fastapi import FastAPI

    from service.api.access.authenticator import Authenticator
    from service.api.access.table import AccessTable

ASSETS = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon.png": "image/png",
}
# Own assets only; Swagger UI sets inline styles.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
CACHE_CONTROL = "public, max-age=86400"
SWAGGER_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>labelwatch API</title>
<link rel="icon" href="docs/assets/favicon.png">
<link rel="stylesheet" href="docs/assets/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/assets/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
START_SCRIPT = """SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  tryItOutEnabled: true,
  validatorUrl: null,
});
"""
DESCRIPTION = """Finds label errors in token-classification data seconds after annotation.

Send labelled sentences to `POST /v1/sentences`: each is assessed and updates the thresholds, and the doubtful ones
appear in `GET /v1/review`, worst first. `POST /v1/score` assesses without updating anything. **Low is bad** in every
score.

Errors are problem details (RFC 9457): `type` and `field` for programs, `detail` for people. Every response carries
`X-Request-ID`; send your own to find the request in logs and messages.
"""
BASIC_SECURITY_SCHEME = {
    "type": "http",
    "scheme": "basic",
    "description": "Only below /label-studio/ and /inception/: the password is the key, and the address has `-` in its place",
}
TAGS = [
    {"name": "sentences", "description": "Score sentences, or send them to the stream."},
    {"name": "review", "description": "The queue of doubtful sentences, and the decisions of reviewers."},
    {"name": "datasets", "description": "Settings and thresholds of each dataset."},
    {"name": "label-studio", "description": "labelwatch as a model of a Label Studio project, by one address."},
    {"name": "inception", "description": "labelwatch as an external recommender of an INCEpTION project."},
    {"name": "keys", "description": "Keys of the API, for admins."},
    {"name": "service", "description": "The service itself: model, health, metrics."},
]

router = APIRouter(include_in_schema=False)


@router.get("/docs")
def serve_page() -> HTMLResponse:
    return HTMLResponse(SWAGGER_PAGE, headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})


@router.get("/docs/start.js")
def serve_start_script() -> Response:
    return Response(START_SCRIPT, media_type="text/javascript")


@router.get("/docs/assets/{name}")
def serve_asset(name: str) -> FileResponse:
    if name not in ASSETS:
        raise NotFoundError(f"there is no asset {name!r}")
    path = str(files("fastapi_offline") / "static" / name)
    return FileResponse(path, media_type=ASSETS[name], headers={"Cache-Control": CACHE_CONTROL})


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with what all operations share: problem responses and security."""
    document = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, tags=TAGS, routes=app.routes)
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    authenticator: Authenticator = app.state.authenticator
    table: AccessTable = app.state.access_table
    components["securitySchemes"] = authenticator.security_schemes | {"basic": BASIC_SECURITY_SCHEME}
    problem = {"content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            responses = operation["responses"]
            responses.pop("422", None)
            responses.setdefault(
                "4XX", {"description": "The request is wrong: `detail` says what to change", **problem}
            )
            responses.setdefault("5XX", {"description": "The service can't answer now: `detail` says why", **problem})
            rule = table.find(method.upper(), path).rule
            if rule.is_public:
                continue
            # In the path of an address for a platform is the key; basic authentication is another way.
            in_path = path.startswith(ADDRESS_PREFIXES)
            schemes: list[dict[str, list[str]]] = (
                [{}, {"basic": []}] if in_path else [{name: []} for name in authenticator.security_schemes]
            )
            operation["security"] = schemes
            operation["x-labelwatch-roles"] = sorted(rule.roles)
            operation["x-labelwatch-dataset"] = rule.dataset.value
    close_request_bodies(document)
    return document
