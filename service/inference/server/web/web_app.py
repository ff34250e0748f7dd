"""The live page of the execution service, as an ASGI application.

It only reads: there is no request that changes anything but the session of a browser.

Names of hosts that are not this one are refused, so that a page of another site cannot reach it by
a name that it makes point here. If the service needs a token, the browser sends it once, and
receives a cookie that scripts cannot read and that other sites' pages do not send.
"""

import asyncio
import hmac
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from neurald.hal.decoding import from_json
from neurald.hal.errors import Error
from neurald.hal.process.address import Address
from neurald.hal.records import DECODE_ERRORS
from neurald.runtime.explain.html import page_policy, render_page
from neurald.service.inference.models.registry import Registry
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.server.web.live_state import LiveState

logger = logging.getLogger(__name__)

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Answer = tuple[int, bytes, list[tuple[bytes, bytes]]]

_COOKIE: Final = "neurald_session"
_MAX_BODY_BYTES: Final = 8192
_BODY_S: Final = 10.0
_GRAPH: Final = re.compile(r"/models/([^/]+)/versions/(\d+)/graph")
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_SAFE: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]

_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>neurald</title>
<style>{style}</style>
</head>
<body>
<noscript><p>This page needs JavaScript, which is turned off. <code>neurald top</code> and
<code>neurald status</code> show the same in a terminal.</p></noscript>
<script>{program}</script>
</body>
</html>
"""


class WebApp:
    """Answers browsers. An ASGI application that belongs to one event loop.

    Args:
        registry: the models.
        state: what the page shows.
        address: where it is served, with the actual port.
        token: the token that clients must send; empty for none.
        is_encrypted: whether it is served over TLS.
    """

    def __init__(
        self, registry: Registry, state: LiveState, address: Address, *, token: str, is_encrypted: bool
    ) -> None:
        self._registry = registry
        self._state = state
        self._token = token
        self._session = secrets.token_urlsafe(32)
        self._scheme = "https" if is_encrypted else "http"
        host = f"[{address.host}]" if ":" in address.host else address.host
        names = {host, *_LOCAL_NAMES} if address.is_loopback else None
        #: The hosts that requests may name; None for all, if other hosts are served.
        self._hosts = None if names is None else {f"{name}:{address.port}" for name in names}
        self._is_open = not token and not is_encrypted
        style, program = _file("live.css"), _file("live.js")
        self._page = _PAGE.format(style=style, program=program).encode()
        self._policy = page_policy(style=style, scripts=(program,), connects=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, as ASGI defines it."""
        if scope["type"] != "http":
            raise ValueError(f"{scope['type']} is not served")
        try:
            status, content, headers = await self._answer(scope, receive)
        except ServiceError as error:
            status, content, headers = _problem(404, str(error))
        except Error as error:
            status, content, headers = _problem(503, str(error))
        except Exception as error:
            logger.exception("a request of a browser failed")
            status, content, headers = _problem(500, f"unexpected {type(error).__name__}")
        length = (b"content-length", str(len(content)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [*headers, *_SAFE, length]})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        is_known = _is_numeric(host) if self._hosts is None and self._is_open else True
        if not is_known or (self._hosts is not None and host not in self._hosts):
            return _problem(421, f"this page is not served as {host[:200]!r}")
        if headers.get(b"sec-fetch-site") == b"cross-site" and headers.get(b"sec-fetch-mode") != b"navigate":
            return _problem(403, "other sites may not read this page")
        path, method = scope["raw_path"].partition(b"?")[0].decode("latin-1"), scope["method"]
        if path == "/session":
            if method != "POST":
                return _problem(405, "a session begins with POST")
            return await self._begin_session(headers, host, receive)
        if method not in ("GET", "HEAD"):
            return _problem(405, "this page is only read")
        if path == "/":
            return _html(self._page, self._policy)
        if not self._is_allowed(headers):
            return _problem(401, "this page needs the token of the service")
        if path == "/state":
            return 200, await self._state.document(), [(b"content-type", b"application/json")]
        match = _GRAPH.fullmatch(path)
        if match is None:
            return _problem(404, "there is no such page")
        return await self._graph(unquote(match[1]), match[2])

    def _is_allowed(self, headers: Mapping[bytes, bytes]) -> bool:
        if not self._token:
            return True
        given = headers.get(b"authorization", b"")
        if hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            return True
        try:
            cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return False
        found = cookies.get(_COOKIE)
        return found is not None and hmac.compare_digest(found.value.encode(), self._session.encode())

    async def _begin_session(self, headers: Mapping[bytes, bytes], host: str, receive: Receive) -> Answer:
        origin = urlsplit(headers.get(b"origin", b"").decode("latin-1"))
        is_json = headers.get(b"content-type", b"").split(b";")[0].strip() == b"application/json"
        if (origin.scheme, origin.netloc.lower()) != (self._scheme, host) or not is_json:
            return _problem(403, "a session begins on this page only")
        try:
            async with asyncio.timeout(_BODY_S):
                given = from_json(await _body(receive), dict[str, str])
        except (TimeoutError, ValueError, *DECODE_ERRORS):
            return _problem(400, "a token is expected")
        if not self._token or not hmac.compare_digest(given.get("token", "").encode(), self._token.encode()):
            return _problem(401, "this is not the token of the service")
        secure = "; Secure" if self._scheme == "https" else ""
        cookie = f"{_COOKIE}={self._session}; HttpOnly; SameSite=Strict; Path=/{secure}"
        return 204, b"", [(b"set-cookie", cookie.encode())]

    async def _graph(self, name: str, version: str) -> Answer:
        """Shows the graph of a model. What its worker tells is not trusted."""
        content = await self._registry.find(name, version).explain()

        def rendered() -> tuple[bytes, str]:
            page = render_page(f"{name}, version {version}", msgspec.json.decode(content))
            return page.text.encode(), page.policy

        return _html(*await asyncio.to_thread(rendered))


def _is_numeric(host: str) -> bool:
    """Returns True if a host is an IP address, which no other site can make point here."""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        ip_address(name)
    except ValueError:
        return name == "localhost"
    return True


def _file(name: str) -> str:
    return files("neurald.service.inference.server.web").joinpath(name).read_text(encoding="utf-8")


def _html(content: bytes, policy: str) -> Answer:
    policy = f"{policy}; frame-ancestors 'none'"
    return (
        200,
        content,
        [(b"content-type", b"text/html; charset=utf-8"), (b"content-security-policy", policy.encode())],
    )


def _problem(status: int, text: str) -> Answer:
    return status, msgspec.json.encode({"error": text}), [(b"content-type", b"application/json")]


async def _body(receive: Receive) -> bytes:
    content: bytes = b""
    while True:
        message = await receive()
        content += bytes(message.get("body", b""))
        if len(content) > _MAX_BODY_BYTES or message["type"] != "http.request":
            raise ValueError("the body is too large or incomplete")
        if not message.get("more_body"):
            return content
