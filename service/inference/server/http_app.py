"""The V2 protocol over HTTP, as an ASGI application."""

import asyncio
import contextlib
import hmac
import logging
import re
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from neurald.hal.errors import Error
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.json_encoding import decode_request, encode_answer
from neurald.service.inference.protocol.messages import as_json
from neurald.service.inference.protocol.tensors import quoted
from neurald.service.inference.server.calls import Calls, parse_json_parameters
from neurald.service.inference.server.metrics import metrics_text
from neurald.service.inference.server.openapi import openapi_document
from neurald.service.inference.server.region_calls import RegionCalls
from neurald.service.inference.server.request_budget import RequestBudget

logger = logging.getLogger(__name__)

_CODES: Final = {
    Status.INVALID: 400,
    Status.UNAUTHENTICATED: 401,
    Status.NOT_FOUND: 404,
    Status.TOO_LARGE: 413,
    Status.EXHAUSTED: 503,
    Status.UNAVAILABLE: 503,
    Status.LATE: 504,
    Status.CANCELLED: 499,
    Status.UNIMPLEMENTED: 501,
    Status.INTERNAL: 500,
}
_HEADER_LENGTH: Final = b"inference-header-content-length"
_BODY_S: Final = 60.0
#: How much of a body that is too large is received, and for how long: a client that is still
#: sending when its connection is closed may not see the answer.
_MAX_DISCARDED_BYTES: Final = 8 << 20
_DISCARD_S: Final = 1.0
#: The largest body of a call other than an inference.
_SMALL_BODY_BYTES: Final = 1 << 20
_ENCODER: Final = msgspec.json.Encoder()

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Answer = tuple[int, bytes, list[tuple[bytes, bytes]]]

_MODEL: Final = r"/v2/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?"
_REGION: Final = r"(?:/region/(?P<region>[^/]+))?"
_JSON: Final = [(b"content-type", b"application/json")]
_TEXT: Final = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]


class HttpApp:
    """Answers requests over HTTP. An ASGI application.

    Args:
        calls: answers calls.
        regions: calls for shared memory.
        budget: memory of all requests that are there at once.
        message_bytes: the largest body.
        token: that clients must send; empty for none.
    """

    def __init__(
        self,
        calls: Calls,
        regions: RegionCalls,
        budget: RequestBudget,
        *,
        message_bytes: int,
        token: str = "",
    ) -> None:
        self._calls = calls
        self._regions = regions
        self._budget = budget
        self._message_bytes = message_bytes
        self._token = f"Bearer {token}".encode() if token else b""
        self._routes = [
            (method, re.compile(pattern + r"/?"), call)
            for method, pattern, call in (
                ("GET", "/v2/health/live", self._live),
                ("GET", "/v2/health/ready", self._ready),
                ("GET", "/v2", self._server),
                ("GET", "/v2/openapi.json", self._openapi),
                ("GET", "/v2/models/stats", self._all_statistics),
                ("GET", _MODEL, self._metadata),
                ("GET", _MODEL + "/ready", self._model_ready),
                ("GET", _MODEL + "/config", self._config),
                ("GET", _MODEL + "/stats", self._statistics),
                ("POST", _MODEL + "/infer", self._infer),
                ("POST", "/v2/repository/index", self._index),
                ("POST", "/v2/repository/models/(?P<model>[^/]+)/load", self._load),
                ("POST", "/v2/repository/models/(?P<model>[^/]+)/unload", self._unload),
                ("GET", "/v2/systemsharedmemory" + _REGION + "/status", self._region_status),
                ("POST", "/v2/systemsharedmemory" + _REGION + "/register", self._register),
                ("POST", "/v2/systemsharedmemory" + _REGION + "/unregister", self._unregister),
                ("GET", "/v2/cudasharedmemory" + _REGION + "/status", self._no_regions),
                ("POST", "/v2/cudasharedmemory" + _REGION + "/register", self._refuse_cuda),
                ("POST", "/v2/cudasharedmemory" + _REGION + "/unregister", self._no_regions),
                ("GET", "/v2/trace/setting", self._trace),
                ("POST", "/v2/trace/setting", self._trace),
                ("GET", "/v2/models/[^/]+/trace/setting", self._trace),
                ("POST", "/v2/models/[^/]+/trace/setting", self._trace),
                ("GET", "/v2/logging", self._logging),
                ("POST", "/v2/logging", self._logging),
                ("GET", "/metrics", self._metrics),
            )
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, as ASGI defines it."""
        if scope["type"] != "http":
            raise ValueError(f"{scope['type']} is not served")
        body = _Body(scope, receive, self._budget, self._message_bytes)
        try:
            status, content, headers = await self._answer(scope, body)
        except _Gone:
            return
        except ServiceError as error:
            status, content, headers = _CODES[error.status], _error(str(error)), _JSON
        except Error as error:
            status, content, headers = 500, _error(str(error)), _JSON
        except asyncio.CancelledError:
            raise
        except Exception as error:
            logger.exception("a request failed")
            status, content, headers = 500, _error(f"unexpected {type(error).__name__}"), _JSON
        finally:
            body.release()
        length = (b"content-length", str(len(content)).encode())
        closing = [] if body.is_complete else [(b"connection", b"close")]
        await send({"type": "http.response.start", "status": status, "headers": [*headers, length, *closing]})
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, scope: Scope, body: "_Body") -> Answer:
        path, method = scope["raw_path"].partition(b"?")[0].decode("latin-1"), scope["method"]
        allowed: list[str] = []
        for known, pattern, call in self._routes:
            match = pattern.fullmatch(path)
            if match is None:
                continue
            if known != method:
                allowed.append(known)
                continue
            if not path.startswith("/v2/health/"):
                self._authenticate(body.headers)
            given = {key: unquote(value or "") for key, value in match.groupdict().items()}
            answer: Answer = await call(body, **given)
            return answer
        if allowed:
            return (
                405,
                _error(f"{quoted(path)} takes {' and '.join(allowed)}"),
                [*_JSON, (b"allow", ", ".join(allowed).encode())],
            )
        return 404, _error(f"there is no {quoted(path)}"), _JSON

    def _authenticate(self, headers: Mapping[bytes, bytes]) -> None:
        if self._token and not hmac.compare_digest(headers.get(b"authorization", b""), self._token):
            raise ServiceError(
                Status.UNAUTHENTICATED, "this service needs the header Authorization: Bearer TOKEN"
            )

    # State.

    async def _live(self, body: "_Body") -> Answer:
        return 200, b"", []

    async def _ready(self, body: "_Body") -> Answer:
        return (200 if self._calls.is_ready else 400), b"", []

    async def _model_ready(self, body: "_Body", model: str, version: str) -> Answer:
        return (200 if self._calls.is_model_ready(model, version) else 400), b"", []

    async def _metrics(self, body: "_Body") -> Answer:
        return 200, metrics_text(self._calls.registry.served(), self._budget).encode(), _TEXT

    # Descriptions.

    async def _server(self, body: "_Body") -> Answer:
        return _message(self._calls.server_metadata())

    async def _openapi(self, body: "_Body") -> Answer:
        return _json(openapi_document())

    async def _metadata(self, body: "_Body", model: str, version: str) -> Answer:
        return _message(self._calls.model_metadata(model, version))

    async def _config(self, body: "_Body", model: str, version: str) -> Answer:
        return _message(self._calls.model_config(model, version))

    async def _statistics(self, body: "_Body", model: str, version: str) -> Answer:
        return _message(self._calls.statistics(model, version))

    async def _all_statistics(self, body: "_Body") -> Answer:
        return _message(self._calls.statistics("", ""))

    # The repository.

    async def _index(self, body: "_Body") -> Answer:
        parameters = parse_json_parameters(await body.read(_SMALL_BODY_BYTES))
        index = self._calls.repository_index(only_ready=parameters.get("ready") is True)
        return _json(as_json(index)["models"])

    async def _load(self, body: "_Body", model: str) -> Answer:
        document = parse_json_parameters(await body.read(_SMALL_BODY_BYTES))
        parameters = document.get("parameters", {})
        if not isinstance(parameters, dict):
            raise ServiceError(Status.INVALID, "parameters is not a JSON object")
        await self._calls.load(model, parameters)
        return 200, b"", _JSON

    async def _unload(self, body: "_Body", model: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        await self._calls.unload(model)
        return 200, b"", _JSON

    # Inference.

    async def _infer(self, body: "_Body", model: str, version: str) -> Answer:
        content = await body.read(self._message_bytes)
        length = body.headers.get(_HEADER_LENGTH)
        header_bytes = None if length is None else _number(length)
        if header_bytes == 0:
            request = self._calls.raw_request(model, version, memoryview(content))
        else:
            request = decode_request(model, version, content, header_bytes, self._calls.regions)
        task = asyncio.ensure_future(self._calls.infer(request, encode_answer))
        answer = await body.unless_gone(task)
        encoded, header_bytes = answer
        if header_bytes is None:
            return 200, encoded, _JSON
        return (
            200,
            encoded,
            [
                (b"content-type", b"application/octet-stream"),
                (_HEADER_LENGTH, str(header_bytes).encode()),
            ],
        )

    # Shared memory.

    async def _region_status(self, body: "_Body", region: str) -> Answer:
        return _json(list(as_json(self._regions.status(region))["regions"].values()))

    async def _register(self, body: "_Body", region: str) -> Answer:
        given = parse_json_parameters(await body.read(_SMALL_BODY_BYTES))
        key, offset, size = given.get("key"), given.get("offset", 0), given.get("byte_size")
        if not isinstance(key, str) or not _is_size(offset) or not _is_size(size):
            raise ServiceError(Status.INVALID, "key, offset and byte_size are expected: text and two numbers")
        self._regions.register(region, key, offset, size)  # type: ignore[arg-type]
        return 200, b"", _JSON

    async def _unregister(self, body: "_Body", region: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        self._regions.unregister(region)
        return 200, b"", _JSON

    async def _no_regions(self, body: "_Body", region: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        return _json([])

    async def _refuse_cuda(self, body: "_Body", region: str) -> Answer:
        self._regions.refuse_cuda()
        raise AssertionError("unreachable")

    # Settings.

    async def _trace(self, body: "_Body") -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        return _json(self._calls.trace_settings())

    async def _logging(self, body: "_Body") -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        return _json(self._calls.log_settings())


class _Gone(Exception):
    """The client has closed the connection."""


class _Body:
    """The body of a request, of which no more is read than may be.

    Args:
        scope, receive: of ASGI.
        budget: counts the bytes until `release`.
        message_bytes: the largest body, also after it was decompressed.
    """

    def __init__(self, scope: Scope, receive: Receive, budget: RequestBudget, message_bytes: int) -> None:
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive = receive
        self._budget = budget
        self._message_bytes = message_bytes
        self._held = 0
        #: True if everything was read, so that the connection can be used again.
        self.is_complete = scope["method"] in ("GET", "HEAD")

    async def _discard(self) -> None:
        """Receives some of what is left, which a client may send before it reads the answer."""
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_S):
                while not self.is_complete and size < _MAX_DISCARDED_BYTES:
                    event = await self._receive()
                    if event["type"] == "http.disconnect":
                        raise _Gone
                    size += len(event.get("body", b""))
                    self.is_complete = not event.get("more_body", False)

    async def read(self, limit_bytes: int) -> bytes:
        """Reads the body.

        Raises:
            ServiceError: it is too large or too slow, or not compressed as it says.
            _Gone: the client has left.
        """
        announced = self.headers.get(b"content-length")
        if announced is not None and _number(announced) > limit_bytes:
            await self._discard()
            raise _too_large(limit_bytes)
        parts: list[bytes] = []
        size = 0
        while not self.is_complete:
            try:
                async with asyncio.timeout(_BODY_S):
                    event = await self._receive()
            except TimeoutError:
                raise ServiceError(Status.LATE, f"nothing of the request arrived for {_BODY_S:g} s") from None
            if event["type"] == "http.disconnect":
                raise _Gone
            part = event.get("body", b"")
            size += len(part)
            if size > limit_bytes:
                self.is_complete = not event.get("more_body", False)
                await self._discard()
                raise _too_large(limit_bytes)
            self._hold(len(part))
            parts.append(part)
            self.is_complete = not event.get("more_body", False)
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        encoding = self.headers.get(b"content-encoding", b"identity")
        return content if encoding == b"identity" else self._inflated(content, encoding)

    def _inflated(self, content: bytes, encoding: bytes) -> bytes:
        if encoding not in (b"gzip", b"deflate"):
            raise ServiceError(Status.INVALID, "content-encoding has to be identity, gzip or deflate")
        # Both formats are recognised by their first bytes.
        inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._hold(self._message_bytes)
        try:
            result = inflater.decompress(content, self._message_bytes + 1)
        except zlib.error as error:
            raise ServiceError(Status.INVALID, f"the body is not compressed as it says: {error}") from None
        if len(result) > self._message_bytes:
            raise _too_large(self._message_bytes)
        if not inflater.eof:
            raise ServiceError(Status.INVALID, "the compressed body is incomplete")
        self._release(self._message_bytes - len(result))
        return result

    async def unless_gone(self, task: "asyncio.Future[Any]") -> Any:
        """Awaits a task; cancels it if the client closes the connection.

        Raises:
            _Gone: the client has left.
        """
        left = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait((task, left), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise _Gone
            return task.result()
        finally:
            for each in (task, left):
                if not each.done():
                    each.cancel()
                    with contextlib.suppress(asyncio.CancelledError, ServiceError):
                        await each

    def _hold(self, size: int) -> None:
        self._budget.take(size)
        self._held += size

    def _release(self, size: int) -> None:
        self._budget.give_back(size)
        self._held -= size

    def release(self) -> None:
        """Gives back what was counted."""
        self._release(self._held)


def _too_large(limit_bytes: int) -> ServiceError:
    return ServiceError(Status.TOO_LARGE, f"the request has more than {limit_bytes} bytes")


def _number(text: bytes) -> int:
    if not text.isdigit() or len(text) > 18:
        raise ServiceError(Status.INVALID, f"a header has {quoted(text.decode('latin-1'))} for a length")
    return int(text)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _error(message: str) -> bytes:
    return _ENCODER.encode({"error": message})


def _json(document: Any) -> Answer:
    return 200, _ENCODER.encode(document), _JSON


def _message(message: Any) -> Answer:
    return _json(as_json(message))
