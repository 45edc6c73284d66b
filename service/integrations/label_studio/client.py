"""A client for the part of Label Studio's REST API that pushing predictions needs."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from service.errors import InvalidInput, SettingsError, StreamError
from service.formats.platforms.links import normalize_base_url

if TYPE_CHECKING:
    import http.client
    from email.message import Message

DEFAULT_TIMEOUT_S = 30.0
MAX_RESPONSE_BYTES = 100_000_000
MAX_RESPONSE_S = 300.0  # of one answer, however slowly it drips
CHUNK_BYTES = 1 << 16
UNAUTHORIZED = 401
FORBIDDEN = 403
NOT_FOUND = 404


class LabelStudioRejectedError(StreamError):
    """Label Studio answered a request with an error status."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"Label Studio refused it with {status}: {detail}")
        self.status = status


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: urllib would send the token to the new address."""

    def redirect_request(  # noqa: PLR0917 - as urllib calls it
        self,
        req: urllib.request.Request,
        fp: IO[bytes],  # noqa: ARG002
        code: int,  # noqa: ARG002
        msg: str,  # noqa: ARG002
        headers: Message,  # noqa: ARG002
        newurl: str,
    ) -> None:
        raise SettingsError(
            f"--url: {req.full_url} redirects to {newurl}: use the address that answers without a redirect"
        )


class LabelStudioClient:
    """`token` is a legacy access token, or a personal access token (a JWT), which is exchanged for short-lived ones."""

    def __init__(self, url: str, token: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        try:
            self.url = normalize_base_url(url)
        except InvalidInput as error:
            raise SettingsError(f"--url: {error.problem}") from None
        if not token.isascii() or not token.isprintable() or " " in token:
            raise SettingsError(
                "the token is not one of Label Studio's: copy it again from Label Studio's account page"
            )
        self._token = token
        self._is_personal_token = token.count(".") == 2
        self._authorization = f"Token {token}"
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(_NoRedirects)
        if self._is_personal_token:
            self._refresh_access_token()

    def get_project(self, number: int) -> dict[str, Any]:
        project = self._call("GET", f"/api/projects/{number}/")
        if not isinstance(project, dict):
            raise self._build_wrong_address_error()
        return project

    def list_predictions(self, project: int) -> list[dict[str, Any]]:
        """All predictions of a project, from one list or from pages."""
        predictions: list[dict[str, Any]] = []
        requested: set[str] = set()
        query = f"project={quote(str(project))}"
        while query:
            requested.add(query)
            page = self._call("GET", f"/api/predictions/?{query}")
            # Only the query of the next page's address is used: the token must not go to another host.
            next_url = page.get("next") if isinstance(page, dict) else None
            query = urlsplit(next_url).query if isinstance(next_url, str) else ""
            results = page.get("results") if isinstance(page, dict) else page
            if not isinstance(results, list) or query in requested:
                raise self._build_wrong_address_error()
            predictions += [prediction for prediction in results if isinstance(prediction, dict)]
        return predictions

    def create_prediction(self, prediction: dict[str, Any]) -> dict[str, Any]:
        created = self._call("POST", "/api/predictions/", prediction)
        return created if isinstance(created, dict) else {}

    def delete_prediction(self, prediction: int) -> None:
        try:
            self._call("DELETE", f"/api/predictions/{prediction}/")
        except LabelStudioRejectedError as error:
            if error.status != NOT_FOUND:  # a prediction that is already deleted is no error
                raise

    # -- HTTP ------------------------------------------------------------------------------------------------------

    def _call(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - any JSON
        try:
            return self._call_once(method, path, body)
        except LabelStudioRejectedError as error:
            if error.status != UNAUTHORIZED or not self._is_personal_token:
                raise self._translate_rejection(error) from None
        self._refresh_access_token()
        return self._call_once(method, path, body)

    def _refresh_access_token(self) -> None:
        """Exchanges the personal token for a short-lived one, which is valid for minutes."""
        try:
            response = self._call_once("POST", "/api/token/refresh/", {"refresh": self._token}, authorized=False)
        except LabelStudioRejectedError as error:
            raise self._translate_rejection(error) from None
        access = response.get("access") if isinstance(response, dict) else None
        if not isinstance(access, str):
            raise StreamError(f"{self.url} returns no access token: is the address right?")
        self._authorization = f"Bearer {access}"

    def _translate_rejection(self, error: LabelStudioRejectedError) -> Exception:
        if error.status in (UNAUTHORIZED, FORBIDDEN):
            return SettingsError(f"{self.url} does not accept the token: {error}")
        return error

    def _call_once(self, method: str, path: str, body: object, *, authorized: bool = True) -> Any:  # noqa: ANN401 - any JSON
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if authorized:
            headers["Authorization"] = self._authorization
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - normalize_base_url accepts only http and https
            self.url + path, data=data, method=method, headers=headers
        )
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                raw = self._read_response(response)
        except urllib.error.HTTPError as error:
            with error:
                detail = error.read(500).decode(errors="replace")
                raise LabelStudioRejectedError(error.code, self._hide_token(detail)) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise StreamError(f"{self.url} does not answer: {reason}") from None
        try:
            return json.loads(raw) if raw else None
        except ValueError:
            raise self._build_wrong_address_error() from None

    def _read_response(self, response: http.client.HTTPResponse) -> bytes:
        deadline = time.monotonic() + MAX_RESPONSE_S
        raw = bytearray()
        while chunk := response.read1(CHUNK_BYTES):
            raw += chunk
            if len(raw) > MAX_RESPONSE_BYTES:
                raise StreamError(
                    f"{self.url} answers with more than {MAX_RESPONSE_BYTES:,} bytes: is the address right?"
                )
            if time.monotonic() > deadline:
                raise StreamError(f"{self.url} has not sent its answer within {MAX_RESPONSE_S:g} s: try again later")
        return bytes(raw)

    def _hide_token(self, text: str) -> str:
        """A server may repeat the token in its error, which is printed and logged."""
        secrets = (self._token, self._authorization.partition(" ")[2])
        for secret in secrets:
            text = text.replace(secret, "****") if secret else text
        return text

    def _build_wrong_address_error(self) -> StreamError:
        return StreamError(f"{self.url} does not answer like Label Studio: is the address right?")
