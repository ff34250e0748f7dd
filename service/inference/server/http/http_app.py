"""The V2 protocol over HTTP, as an ASGI application."""

import asyncio
import base64
import contextlib
import hmac
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec

from neurald.hal.errors import Error
from neurald.hal.rpc.transport.call_times import TRACE_KEY
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.generate_encoding import (
    decode_generate_request,
    encode_generate_answer,
)
from neurald.service.inference.protocol.json_encoding import (
    ParsedRequest,
    checked_request,
    encode_answer,
    parse_request,
)
from neurald.service.inference.protocol.messages import as_json
from neurald.service.inference.protocol.tensors import quoted
from neurald.service.inference.protocol.trace_context import trace_id_of
from neurald.service.inference.server.admission.request_budget import RequestBudget
from neurald.service.inference.server.admission.restrictions import Restrictions
from neurald.service.inference.server.calls.calls import Calls, parse_json_parameters
from neurald.service.inference.server.http.compression import (
    IDENTITY,
    chosen_encoding,
    compressed,
    decompressed,
    encoding_of,
)
from neurald.service.inference.server.http.metrics import metrics_text
from neurald.service.inference.server.http.openapi import openapi_document
from neurald.service.inference.server.http.request_events import EVENTS, RequestEvents
from neurald.service.inference.server.http.time_limit import time_limit_s
from neurald.service.inference.server.regions.region_calls import RegionCalls

logger = logging.getLogger(__name__)

_CODES: Final = {
    Status.INVALID: 400,
    Status.UNAUTHENTICATED: 401,
    Status.FORBIDDEN: 403,
    Status.NOT_FOUND: 404,
    # As Triton does, whose clients do not expect 413.
    Status.TOO_LARGE: 400,
    Status.EXHAUSTED: 503,
    Status.UNAVAILABLE: 503,
    Status.LATE: 504,
    Status.CANCELLED: 499,
    Status.UNIMPLEMENTED: 501,
    Status.INTERNAL: 500,
}
_HEADER_LENGTH: Final = b"inference-header-content-length"
_BODY_S: Final = 60.0
#: The most chunks of a body.
_MAX_CHUNKS: Final = 65_536
#: How much of a body that is too large is received, and for how long: some time, and more for a
#: client that sends so many bytes per second. One that is still sending when its connection is
#: closed may not see the answer.
_MAX_DISCARDED_BYTES: Final = 4 << 30
_DISCARD_S: Final = 5.0
_DISCARDED_PER_S: Final = 4 << 20
#: What a message may have in addition to the bytes of its tensors.
_ENVELOPE_BYTES: Final = 64 << 10
#: The largest body of a call that has neither tensors nor files.
_SMALL_BODY_BYTES: Final = 1 << 20
#: How many paths of requests are remembered with what answers them.
_KEPT_ROUTES: Final = 128
#: Shorter JSON of inferences is parsed at once, which takes some milliseconds.
_SHORT_JSON_BYTES: Final = 1 << 18
_ENCODER: Final = msgspec.json.Encoder()

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
_Parsed = TypeVar("_Parsed")
Answer = tuple[int, bytes, list[tuple[bytes, bytes]]]

_MODEL: Final = r"/v2/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?"
_REGION: Final = r"(?:/region/(?P<region>[^/]+))?"
_CONTROL: Final = "model-repository"
_MEMORY: Final = "shared-memory"
_JSON: Final = [(b"content-type", b"application/json")]
_TEXT: Final = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
_EVENTS: Final = [(b"content-type", b"text/event-stream; charset=utf-8")]
#: How an operator lets clients send more, in Triton's words.
_RAISE_LIMIT: Final = "Use --http-max-input-size to increase the limit."


class HttpApp:
    """Answers requests over HTTP. An ASGI application, for servers with the extension `EVENTS`.

    Args:
        calls: answers calls.
        regions: calls for shared memory.
        budget: memory of all requests that are there at once.
        message_bytes: of the tensors of a request, or of its JSON.
        token: that clients must send; empty for none.
        restrictions: of calls to some clients.
    """

    def __init__(
        self,
        calls: Calls,
        regions: RegionCalls,
        budget: RequestBudget,
        *,
        message_bytes: int,
        token: str,
        restrictions: Restrictions,
    ) -> None:
        self._calls = calls
        self._restrictions = restrictions
        self._regions = regions
        self._budget = budget
        self._message_bytes = message_bytes
        #: Held while a thread parses, since several would only wait for each other.
        self._parsing = asyncio.Lock()
        self._token = f"Bearer {token}".encode() if token else b""
        self._route_of = lru_cache(_KEPT_ROUTES)(self._find_route)
        self._routes = [
            (method, group, re.compile(pattern + r"/?"), call)
            for method, group, pattern, call in (
                ("GET", "health", "/v2/health/live", self._live),
                ("GET", "health", "/v2/health/ready", self._ready),
                ("GET", "metadata", "/v2", self._server),
                ("GET", "metadata", "/v2/openapi.json", self._openapi),
                ("GET", "statistics", "/v2/models/stats", self._all_statistics),
                ("GET", "metadata", _MODEL, self._metadata),
                ("GET", "health", _MODEL + "/ready", self._model_ready),
                ("GET", "model-config", _MODEL + "/config", self._config),
                ("GET", "statistics", _MODEL + "/stats", self._statistics),
                ("POST", "inference", _MODEL + "/infer", self._infer),
                ("POST", "inference", _MODEL + "/generate", self._generate),
                ("POST", "inference", _MODEL + "/generate_stream", self._generate_stream),
                ("POST", _CONTROL, "/v2/repository/index", self._index),
                ("POST", _CONTROL, "/v2/repository/models/(?P<model>[^/]+)/load", self._load),
                ("POST", _CONTROL, "/v2/repository/models/(?P<model>[^/]+)/unload", self._unload),
                ("GET", _MEMORY, "/v2/systemsharedmemory" + _REGION + "/status", self._region_status),
                ("POST", _MEMORY, "/v2/systemsharedmemory" + _REGION + "/register", self._register),
                ("POST", _MEMORY, "/v2/systemsharedmemory" + _REGION + "/unregister", self._unregister),
                ("GET", _MEMORY, "/v2/cudasharedmemory" + _REGION + "/status", self._cuda_status),
                ("POST", _MEMORY, "/v2/cudasharedmemory" + _REGION + "/register", self._register_cuda),
                ("POST", _MEMORY, "/v2/cudasharedmemory" + _REGION + "/unregister", self._unregister_cuda),
                ("GET", "trace", "/v2/trace/setting", self._trace),
                ("POST", "trace", "/v2/trace/setting", self._trace),
                ("GET", "trace", "/v2/models/(?P<model>[^/]+)/trace/setting", self._trace),
                ("POST", "trace", "/v2/models/(?P<model>[^/]+)/trace/setting", self._trace),
                ("GET", "logging", "/v2/logging", self._logging),
                ("POST", "logging", "/v2/logging", self._logging),
                ("GET", "statistics", "/metrics", self._metrics),
            )
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, as ASGI defines it."""
        if scope["type"] != "http":
            raise ValueError(f"{scope['type']} is not served")
        body = _Body(scope, receive, self._budget)
        try:
            status, content, headers = await self._answer(scope, body)
        except _Gone:
            return
        except ServiceError as error:
            status, content, headers = _CODES[error.status], _error(str(error)), _JSON
        except Error as error:
            status, content, headers = 500, _error(str(error)), _JSON
        except asyncio.CancelledError:
            # The server cancels what takes too long when it stops.
            status, content, headers = 503, _error("the service is stopping; try again"), _JSON
        except Exception as error:
            logger.exception("a request failed")
            status, content, headers = 500, _error(f"unexpected {type(error).__name__}"), _JSON
        finally:
            body.release()
        length = (b"content-length", str(len(content)).encode())
        closing = [(b"connection", b"close")] if body.needs_close else []
        await send({"type": "http.response.start", "status": status, "headers": [*headers, length, *closing]})
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, scope: Scope, body: "_Body") -> Answer:
        path = scope["raw_path"].partition(b"?")[0].decode("latin-1")
        route = self._route_of(scope["method"], path)
        if not isinstance(route, _Route):
            if route:
                return (
                    405,
                    _error(f"{quoted(path)} takes {' and '.join(route)}"),
                    [*_JSON, (b"allow", ", ".join(route).encode())],
                )
            return 404, _error(f"there is no {quoted(path)}"), _JSON
        self._admit(route.group, body.headers, needs_token=not path.startswith("/v2/health/"))
        answer: Answer = await route.call(body, **route.given)
        return answer

    def _find_route(self, method: str, path: str) -> "_Route | tuple[str, ...]":
        """Returns what answers a request; if nothing does, the methods that the path takes."""
        allowed: list[str] = []
        for known, group, pattern, call in self._routes:
            match = pattern.fullmatch(path)
            if match is None:
                continue
            if known != method:
                allowed.append(known)
                continue
            given = {key: unquote(value or "") for key, value in match.groupdict().items()}
            return _Route(group, call, given)
        return tuple(allowed)

    def _admit(self, group: str, headers: Mapping[bytes, bytes], *, needs_token: bool) -> None:
        """Raises ServiceError if the client has not the token, or a header that the call needs."""
        given = headers.get(b"authorization", b"")
        if needs_token and self._token and not hmac.compare_digest(given, self._token):
            raise ServiceError(
                Status.UNAUTHENTICATED, "this service needs the header Authorization: Bearer TOKEN"
            )
        self._restrictions.require(group, lambda name: headers.get(name.encode()))

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
        content = await body.read(_SMALL_BODY_BYTES)
        only_ready: Any = False
        try:
            only_ready = parse_json_parameters(content).get("ready", False)
        except RecursionError:
            only_ready = None
        if not isinstance(only_ready, bool):
            raise ServiceError(Status.INVALID, "Invalid value for 'ready': expected a boolean")
        index = self._calls.repository_index(only_ready=only_ready)
        return _json(as_json(index)["models"])

    async def _load(self, body: "_Body", model: str) -> Answer:
        document = _small_document(await body.read(self._message_bytes))
        given = document.get("parameters", {})
        if not isinstance(given, dict):
            raise ServiceError(Status.INVALID, "parameters is not a JSON object")
        parameters = {key: _load_parameter(key, value) for key, value in given.items()}
        await self._calls.load(model, parameters)
        return 200, b"", _JSON

    async def _unload(self, body: "_Body", model: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        await self._calls.unload(model)
        return 200, b"", _JSON

    # Inference.

    async def _infer(self, body: "_Body", model: str, version: str) -> Answer:
        length = body.headers.get(_HEADER_LENGTH)
        header_bytes = None if length is None else _number(length)
        async with self._arriving(body, model, version):
            content = await body.read(self._message_bytes, envelope=_ENVELOPE_BYTES if header_bytes else 0)
        if header_bytes == 0:
            request = self._calls.raw_request(model, version, memoryview(content))
        else:
            parsed = await self._parsed(content, header_bytes)
            request = checked_request(model, version, parsed, self._calls.regions)
        answer = await body.unless_gone(
            self._calls.infer(request.of_trace(body.trace_id), encode_answer, body.remaining_s)
        )
        encoded, header_bytes = answer
        headers = _JSON
        if header_bytes is not None:
            headers = [
                (b"content-type", b"application/octet-stream"),
                (_HEADER_LENGTH, str(header_bytes).encode()),
            ]
        encoding = chosen_encoding(body.headers.get(b"accept-encoding", b""))
        if not encoding:
            return 200, encoded, headers
        return 200, await compressed(encoded, encoding), [*headers, (b"content-encoding", encoding)]

    @contextlib.asynccontextmanager
    async def _arriving(self, body: "_Body", model: str, version: str) -> AsyncIterator[None]:
        """Has the block read a request, unless it would be late, as its head says.

        Raises:
            ServiceError: it would be late, or it may be and there is no such model.
        """
        if body.remaining_s is None:
            yield
            return
        found = self._calls.registry.find(model, version)
        refusal = found.refusal(body.remaining_s)
        if refusal is not None:
            await body.discard()
            raise refusal
        arrived = found.arrivals.begin()
        try:
            yield
        finally:
            arrived()

    async def _parsed(self, content: bytes, header_bytes: int | None) -> ParsedRequest:
        size = len(content) if header_bytes is None else header_bytes
        return await self._in_turn(partial(parse_request, content, header_bytes), size)

    async def _in_turn(self, parse: Callable[[], _Parsed], size: int) -> _Parsed:
        """Parses JSON; much of it in another thread, so that other clients need not wait."""
        if size <= _SHORT_JSON_BYTES:
            return parse()
        async with self._parsing:
            return await asyncio.to_thread(parse)

    async def _generate(self, body: "_Body", model: str, version: str) -> Answer:
        return 200, await self._generated(body, model, version), _JSON

    async def _generate_stream(self, body: "_Body", model: str, version: str) -> Answer:
        """Answers with the only event of a stream, since a run has one answer."""
        answer = await self._generated(body, model, version)
        return 200, b"".join((b"data: ", answer, b"\n\n")), _EVENTS

    async def _generated(self, body: "_Body", model: str, version: str) -> bytes:
        found = self._calls.registry.find(model, version)
        async with self._arriving(body, model, version):
            content = await body.read(self._message_bytes)
        inputs = found.loaded.inputs
        request = await self._in_turn(
            partial(decode_generate_request, model, version, content, inputs), len(content)
        )
        answer: bytes = await body.unless_gone(
            self._calls.infer(request.of_trace(body.trace_id), encode_generate_answer, body.remaining_s)
        )
        return answer

    # Shared memory.

    async def _region_status(self, body: "_Body", region: str) -> Answer:
        return _json(list(as_json(self._regions.status(region))["regions"].values()))

    async def _register(self, body: "_Body", region: str) -> Answer:
        given = _small_document(await body.read(_SMALL_BODY_BYTES))
        key, offset, size = given.get("key"), given.get("offset", 0), given.get("byte_size")
        for name in ("key", "byte_size"):
            if name not in given:
                raise ServiceError(Status.INVALID, f"Shared memory register request has no '{name}' field")
        if not isinstance(key, str) or not _is_size(offset) or not _is_size(size):
            raise ServiceError(Status.INVALID, "key, offset and byte_size are expected: text and two numbers")
        self._regions.register(region, key, offset, size)  # type: ignore[arg-type]
        return 200, b"", _JSON

    async def _unregister(self, body: "_Body", region: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        self._regions.unregister(region)
        return 200, b"", _JSON

    async def _cuda_status(self, body: "_Body", region: str) -> Answer:
        return _json(list(as_json(self._regions.cuda_status(region))["regions"].values()))

    async def _register_cuda(self, body: "_Body", region: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        self._regions.register_cuda(region)
        raise AssertionError("unreachable")

    async def _unregister_cuda(self, body: "_Body", region: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        self._regions.unregister_cuda()
        return 200, b"", _JSON

    # Settings.

    async def _trace(self, body: "_Body", model: str = "") -> Answer:
        given = _small_document(await body.read(_SMALL_BODY_BYTES))
        changes = {key: _setting_values(key, value) for key, value in given.items()}
        found = self._calls.trace_settings(model, changes)
        levels = found.pop("trace_level")
        return _json({"trace_level": levels, **{key: value for key, (value,) in found.items()}})

    async def _logging(self, body: "_Body") -> Answer:
        given = _small_document(await body.read(_SMALL_BODY_BYTES))
        self._calls.log_settings.change({key: each for key, each in given.items() if each is not None})
        return _json(self._calls.log_settings.current())


class _Route(NamedTuple):
    """Names what answers a request: the group of its call, the call, and the parts of its path."""

    group: str
    call: Callable[..., Awaitable[Answer]]
    given: Mapping[str, str]


class _Gone(Exception):
    """The client has closed the connection."""


class _Body:
    """The body of a request, of which no more is read than may be.

    Args:
        scope, receive: of ASGI.
        budget: counts the bytes until `release`.
    """

    def __init__(self, scope: Scope, receive: Receive, budget: RequestBudget) -> None:
        self.headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            before = self.headers.get(name)
            # Fields of one name are one list (RFC 9110, 5.3).
            self.headers[name] = value if before is None else b", ".join((before, value))
        self._events: RequestEvents = scope["extensions"][EVENTS]
        self._receive = receive
        self._budget = budget
        self._held = 0
        limit_s = time_limit_s(self.headers)
        self._end_s = None if limit_s is None else asyncio.get_running_loop().time() + limit_s
        #: True if everything was read, so that the connection can be used again.
        self.is_complete = scope["method"] in ("GET", "HEAD")

    @property
    def trace_id(self) -> str:
        """The client's trace; empty if it takes none."""
        return trace_id_of(self.headers.get(TRACE_KEY.encode(), b""))

    @property
    def needs_close(self) -> bool:
        """True if the connection must not be used again.

        Some of the body may not have been read, or it has a length and chunks, as attempts to
        smuggle a request through a proxy have.
        """
        return not self.is_complete or {b"content-length", b"transfer-encoding"} <= self.headers.keys()

    @property
    def remaining_s(self) -> float | None:
        """How long the client still waits for the answer; None if it does not say."""
        return None if self._end_s is None else max(0.0, self._end_s - asyncio.get_running_loop().time())

    async def discard(self) -> None:
        """Receives some of what is left, which a client may send before it reads the answer."""
        size = 0
        end_s = asyncio.get_running_loop().time() + _DISCARD_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(end_s) as limit:
                while not self.is_complete and size < _MAX_DISCARDED_BYTES:
                    event = await self._receive()
                    if event["type"] == "http.disconnect":
                        raise _Gone
                    size += len(event.get("body", b""))
                    limit.reschedule(end_s + size / _DISCARDED_PER_S)
                    self.is_complete = not event.get("more_body", False)

    async def read(self, limit_bytes: int, envelope: int = 0) -> bytes:
        """Reads the body.

        Args:
            limit_bytes: the most bytes, also after it was decompressed.
            envelope: how many more it may have.

        Raises:
            ServiceError: it is too large or too slow, or not compressed as it says.
            _Gone: the client has left.
        """
        most = limit_bytes + envelope
        announced = None
        if b"transfer-encoding" not in self.headers:
            announced = self.headers.get(b"content-length")
        if announced is not None and (size := _number(announced)) > most:
            await self.discard()
            raise self._too_large(size, limit_bytes, has_tensors=envelope > 0)
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
            if size > most:
                self.is_complete = not event.get("more_body", False)
                await self.discard()
                raise self._too_large(size, limit_bytes, has_tensors=envelope > 0)
            if self._events.chunks > _MAX_CHUNKS + 1:  # the last one is empty
                self.is_complete = not event.get("more_body", False)
                await self.discard()
                raise ServiceError(
                    Status.TOO_LARGE,
                    f"Chunked request body exceeds maximum of {_MAX_CHUNKS} non-empty chunks. Send fewer or larger "
                    "HTTP chunks.",
                )
            self._hold(len(part))
            parts.append(part)
            self.is_complete = not event.get("more_body", False)
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        encoding = encoding_of(self.headers.get(b"content-encoding", b""))
        if encoding == IDENTITY:
            return content
        self._hold(most)
        result = await decompressed(content, encoding, most)
        self._release(most - min(most, len(result)))
        if len(result) > most:
            raise ServiceError(
                Status.TOO_LARGE,
                f"Decompressed data size exceeds the maximum allowed value of {limit_bytes} bytes. {_RAISE_LIMIT}",
            )
        return result

    def _too_large(self, size: int, limit_bytes: int, *, has_tensors: bool) -> ServiceError:
        """Returns the error for a body of at least so many bytes, which is JSON and perhaps tensors."""
        length = self.headers.get(_HEADER_LENGTH)
        if length is not None and not length.strip(b"0"):
            reason = (
                f"Raw input has a byte_size ({size} bytes) that exceeds the maximum allowed value of "
                f"{limit_bytes} bytes"
            )
        else:
            what = "request size" if has_tensors else "request JSON size"
            reason = f"{what} of {size} bytes exceeds the maximum allowed input size of {limit_bytes} bytes"
        return ServiceError(Status.TOO_LARGE, f"{reason}. {_RAISE_LIMIT}")

    async def unless_gone(self, call: Awaitable[Any]) -> Any:
        """Awaits a call; cancels it if the client closes the connection.

        Raises:
            _Gone: the client has left.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine
        self._events.on_gone = task.cancel
        if self._events.is_gone:
            task.cancel()
        try:
            return await call
        except asyncio.CancelledError:
            if not self._events.is_gone:
                raise
            task.uncancel()
            raise _Gone from None
        finally:
            self._events.on_gone = None

    def _hold(self, size: int) -> None:
        self._budget.take(size)
        self._held += size

    def _release(self, size: int) -> None:
        self._budget.give_back(size)
        self._held -= size

    def release(self) -> None:
        """Gives back what was counted."""
        self._release(self._held)


def _number(text: bytes) -> int:
    text = text.strip()
    if not text.isdigit() or len(text) > 18:
        raise ServiceError(Status.INVALID, f"a header has {quoted(text.decode('latin-1'))} for a length")
    return int(text)


def _small_document(content: bytes) -> dict[str, Any]:
    try:
        return parse_json_parameters(content)
    except RecursionError:
        raise ServiceError(Status.INVALID, "the request JSON is nested too deeply") from None


def _load_parameter(key: str, value: Any) -> Any:
    """Returns a parameter of a call that loads a model, of which files are in base64."""
    if not isinstance(value, str):
        raise ServiceError(
            Status.INVALID, f"attempt to access JSON non-string as string: the parameter {quoted(key)}"
        )
    if not key.startswith("file:"):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise ServiceError(Status.INVALID, f"the parameter {quoted(key)} is not base64") from None


def _setting_values(key: str, value: Any) -> tuple[str, ...]:
    """Returns the values that a setting of traces is given; none if it is cleared."""
    if value is None:
        return ()
    if key == "trace_level":
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ServiceError(
                Status.INVALID, f"attempt to access JSON non-array as array: '{key}' is a list of text"
            )
        return tuple(value)
    if not isinstance(value, str):
        raise ServiceError(Status.INVALID, f"attempt to access JSON non-string as string: {quoted(key)}")
    return (value,)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _error(message: str) -> bytes:
    return _ENCODER.encode({"error": message})


def _json(document: Any) -> Answer:
    return 200, _ENCODER.encode(document), _JSON


def _message(message: Any) -> Answer:
    return _json(as_json(message))
