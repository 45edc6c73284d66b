"""The few calls of Label Studio's API that pushing predictions needs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from service.errors import InvalidInput, SettingsError, StreamError
from service.formats.platforms.links import normalize_base_url

if TYPE_CHECKING:
    from email.message import Message

DEFAULT_TIMEOUT_S = 30.0
MAX_RESPONSE_BYTES = 500_000_000
UNAUTHORIZED = 401


class LabelStudioRejectedError(StreamError):
    """Label Studio answered, and said no to this one request."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"Label Studio refused it with {status}: {detail}")
        self.status = status


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token along to wherever it points."""

    def redirect_request(  # noqa: PLR0917 - as urllib calls it
        self,
        req: urllib.request.Request,
        fp: IO[bytes],  # noqa: ARG002
        code: int,  # noqa: ARG002
        msg: str,  # noqa: ARG002
        headers: Message,  # noqa: ARG002
        newurl: str,
    ) -> None:
        raise SettingsError(f"--url: {req.full_url} leads on to {newurl}: name the address that answers itself")


class LabelStudioClient:
    """`token` is an access token of the old kind, or a personal one (a JWT), which is traded for short-lived ones."""

    def __init__(self, url: str, token: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        try:
            self.url = normalize_base_url(url)
        except InvalidInput as error:
            raise SettingsError(f"--url: {error.problem}") from None
        if not token.isascii() or not token.isprintable() or " " in token:
            raise SettingsError("the token is not one of Label Studio's: copy it again from its account page")
        self._token = token
        self._is_personal_token = token.count(".") == 2
        self._authorization = f"Token {token}"
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(_NoRedirects)
        if self._is_personal_token:
            self._refresh_access_token()

    def get_project(self, number: int) -> dict[str, Any]:
        found = self._call("GET", f"/api/projects/{number}/")
        if not isinstance(found, dict):
            raise StreamError(f"{self.url} does not answer like Label Studio: is the address right?")
        return found

    def list_predictions(self, project: int) -> list[dict[str, Any]]:
        """All of a project's, also where they come in pages."""
        found: list[dict[str, Any]] = []
        asked: set[str] = set()
        query = f"project={quote(str(project))}"
        while query:
            asked.add(query)
            page = self._call("GET", f"/api/predictions/?{query}")
            # The address of the next page is the server's word: only its query is taken, so that the token stays here.
            following = page.get("next") if isinstance(page, dict) else None
            query = urlsplit(following).query if isinstance(following, str) else ""
            listed = page.get("results") if isinstance(page, dict) else page
            if not isinstance(listed, list) or query in asked:
                raise StreamError(f"{self.url} does not answer like Label Studio: is the address right?")
            found += [one for one in listed if isinstance(one, dict)]
        return found

    def create_prediction(self, prediction: dict[str, Any]) -> dict[str, Any]:
        found = self._call("POST", "/api/predictions/", prediction)
        return found if isinstance(found, dict) else {}

    def delete_prediction(self, prediction: int) -> None:
        try:
            self._call("DELETE", f"/api/predictions/{prediction}/")
        except LabelStudioRejectedError as error:
            if error.status != 404:  # it is gone already
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
        """Short-lived tokens live for minutes."""
        try:
            found = self._call_once("POST", "/api/token/refresh/", {"refresh": self._token}, authorized=False)
        except LabelStudioRejectedError as error:
            raise self._translate_rejection(error) from None
        access = found.get("access") if isinstance(found, dict) else None
        if not isinstance(access, str):
            raise StreamError(f"{self.url} gives no access token: is the address right?")
        self._authorization = f"Bearer {access}"

    def _translate_rejection(self, error: LabelStudioRejectedError) -> Exception:
        if error.status in (UNAUTHORIZED, 403):
            return SettingsError(f"{self.url} does not take the token: {error}")
        return error

    def _call_once(self, method: str, path: str, body: object, *, authorized: bool = True) -> Any:  # noqa: ANN401 - any JSON
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if authorized:
            headers["Authorization"] = self._authorization
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - only http and https get past link_base
            self.url + path, data=data, method=method, headers=headers
        )
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                raw = answer.read(MAX_RESPONSE_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                raise LabelStudioRejectedError(error.code, error.read(500).decode(errors="replace")) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise StreamError(f"{self.url} does not answer: {reason}") from None
        try:
            return json.loads(raw) if raw else None
        except ValueError:
            raise StreamError(f"{self.url} does not answer like Label Studio: is the address right?") from None
