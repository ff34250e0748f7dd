"""The V2 protocol over HTTP, as an ASGI application."""

import asyncio
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
from neurald.service.inference.models.known_run import BegunRun, EndedRun, NoteKnown
from neurald.service.inference.models.served_version import ServedVersion
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
from neurald.service.inference.protocol.known_requests import MAX_KNOWN_BYTES, KnownTable
from neurald.service.inference.protocol.messages import as_json
from neurald.service.inference.protocol.tensors import InferenceAnswer, InferenceRequest, quoted
from neurald.service.inference.server.admission.header_forwarding import ForwardedHeaders
from neurald.service.inference.server.admission.request_budget import RequestBudget
from neurald.service.inference.server.admission.restrictions import Restrictions
from neurald.service.inference.server.calls.calls import Calls, parse_json_parameters
from neurald.service.inference.server.calls.endpoint_load import LOAD_FORMAT, LOAD_REPORT
from neurald.service.inference.server.http.compression import (
    chosen_encoding,
    compressed,
)
from neurald.service.inference.server.http.json_parameters import (
    is_size,
    load_parameter,
    setting_values,
    small_document,
)
from neurald.service.inference.server.http.metrics import metrics_text
from neurald.service.inference.server.http.openapi import openapi_document
from neurald.service.inference.server.http.request_body import (
    HEADER_LENGTH,
    ClientGone,
    Receive,
    RequestBody,
    Scope,
)
from neurald.service.inference.server.http.request_head import require_sound_head
from neurald.service.inference.server.regions.region_calls import RegionCalls

logger = logging.getLogger(__name__)
_CODES: Final = {
    Status.INVALID: 400,
    Status.UNAUTHENTICATED: 401,
    Status.FORBIDDEN: 403,
    Status.NOT_FOUND: 404,
    # As Triton does, whose clients do not expect 409 and 413.
    Status.EXISTS: 400,
    Status.TOO_LARGE: 400,
    Status.EXHAUSTED: 503,
    Status.UNAVAILABLE: 503,
    Status.LATE: 504,
    Status.CANCELLED: 499,
    Status.UNIMPLEMENTED: 501,
    Status.INTERNAL: 500,
}
#: What a message may have in addition to the bytes of its tensors.
_ENVELOPE_BYTES: Final = 64 << 10
#: The largest body of a call that has neither tensors nor files.
_SMALL_BODY_BYTES: Final = 1 << 20
#: How many paths of requests are remembered with what answers them.
_KEPT_ROUTES: Final = 128
#: Shorter JSON of inferences is parsed at once, which takes some milliseconds.
_SHORT_JSON_BYTES: Final = 1 << 18
_ENCODER: Final = msgspec.json.Encoder()
Send = Callable[[dict[str, Any]], Awaitable[None]]
_Parsed = TypeVar("_Parsed")
Answer = tuple[int, bytes, list[tuple[bytes, bytes]]]
_MODEL: Final = r"/v2/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?"
_REGION: Final = r"(?:/region/(?P<region>[^/]+))?"
_CONTROL: Final = "model-repository"
_MEMORY: Final = "shared-memory"
_JSON: Final = [(b"content-type", b"application/json")]
_LOAD_FORMAT: Final = LOAD_FORMAT.encode()
_LOAD_REPORT: Final = LOAD_REPORT.encode()
_TEXT: Final = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
_EVENTS: Final = [(b"content-type", b"text/event-stream; charset=utf-8")]


class HttpApp:
    """Answers requests over HTTP. An ASGI application, for servers with the extension `EVENTS`.

    Args:
        calls: answers calls.
        regions: calls for shared memory.
        budget: memory of all requests that are there at once.
        message_bytes: the largest size of the tensors of a request, or of its JSON.
        token: the token that clients must send; empty for none.
        restrictions: the restrictions of calls to some clients.
        forwarded: the headers that become parameters of inferences.
        counts_latencies: whether the metrics have sums of latencies.
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
        forwarded: ForwardedHeaders,
        counts_latencies: bool = True,
    ) -> None:
        self._calls = calls
        self._restrictions = restrictions
        self._forwarded = forwarded
        self._counts_latencies = counts_latencies
        self._regions = regions
        self._budget = budget
        self._message_bytes = message_bytes
        #: Held while a thread parses, since several would only wait for each other.
        self._parsing = asyncio.Lock()
        self._known = KnownTable()
        #: How many inferences are under way.
        self._running = 0
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
                # Triton takes the name of a repository here, too, and does not look at it.
                ("POST", _CONTROL, "/v2/repository(?:/[^/]+)?/index", self._index),
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
        body = RequestBody(scope, receive, self._budget)
        try:
            status, content, headers = await self._answer(scope, body)
        except ClientGone:
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

    async def _answer(self, scope: Scope, body: RequestBody) -> Answer:
        try:
            require_sound_head(scope)
        except ServiceError:
            await body.refuse()
            raise
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

    async def _live(self, body: RequestBody) -> Answer:
        return 200, b"", []

    async def _ready(self, body: RequestBody) -> Answer:
        return (200 if self._calls.is_ready else 400), b"", []

    async def _model_ready(self, body: RequestBody, model: str, version: str) -> Answer:
        if self._calls.is_model_ready(model, version):
            return 200, b"", []
        return 400, _error("Model version not ready"), _JSON

    async def _metrics(self, body: RequestBody) -> Answer:
        text = metrics_text(
            self._calls.registry.served(),
            self._budget,
            self._calls.host,
            counts_latencies=self._counts_latencies,
        )
        return 200, text.encode(), _TEXT

    # Descriptions.

    async def _server(self, body: RequestBody) -> Answer:
        return _message(self._calls.server_metadata())

    async def _openapi(self, body: RequestBody) -> Answer:
        return _json(openapi_document())

    async def _metadata(self, body: RequestBody, model: str, version: str) -> Answer:
        return _message(self._calls.model_metadata(model, version))

    async def _config(self, body: RequestBody, model: str, version: str) -> Answer:
        return _message(self._calls.model_config(model, version))

    async def _statistics(self, body: RequestBody, model: str, version: str) -> Answer:
        return _message(self._calls.statistics(model, version))

    async def _all_statistics(self, body: RequestBody) -> Answer:
        return _message(self._calls.statistics("", ""))

    # The repository.

    async def _index(self, body: RequestBody) -> Answer:
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

    async def _load(self, body: RequestBody, model: str) -> Answer:
        document = small_document(await body.read(self._message_bytes))
        given = document.get("parameters", {})
        if not isinstance(given, dict):
            raise ServiceError(Status.INVALID, "parameters is not a JSON object")
        parameters = {key: load_parameter(key, value) for key, value in given.items()}
        await self._calls.load(model, parameters)
        return 200, b"", _JSON

    async def _unload(self, body: RequestBody, model: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        await self._calls.unload(model)
        return 200, b"", _JSON

    # Inference.

    async def _infer(self, body: RequestBody, model: str, version: str) -> Answer:
        header_bytes = body.header_number(HEADER_LENGTH)
        async with self._arriving(body, model, version):
            content = await body.read(self._message_bytes, envelope=_ENVELOPE_BYTES if header_bytes else 0)
        self._running += 1
        try:
            if header_bytes is None and len(content) <= MAX_KNOWN_BYTES:
                answer = await self._inferred_again(body, content, model, version)
            else:
                answer = await self._inferred(body, content, header_bytes, model, version)
        finally:
            self._running -= 1
        encoded, header_bytes = answer if isinstance(answer, tuple) else (answer, None)
        headers = _JSON
        if header_bytes is not None:
            headers = [
                (b"content-type", b"application/octet-stream"),
                (HEADER_LENGTH, str(header_bytes).encode()),
            ]
        headers = self._with_load(headers, body)
        encoding = chosen_encoding(body.headers.get(b"accept-encoding", b""))
        if not encoding:
            return 200, encoded, headers
        return 200, await compressed(encoded, encoding), [*headers, (b"content-encoding", encoding)]

    async def _inferred(
        self, body: RequestBody, content: bytes, header_bytes: int | None, model: str, version: str
    ) -> Any:
        """Returns the answer of an inference; see `encode_answer`."""
        if header_bytes == 0:
            request = self._calls.raw_request(model, version, memoryview(content))
        else:
            parsed = await self._parsed(content, header_bytes)
            request = checked_request(model, version, parsed, self._calls.regions)
        return await body.unless_gone(
            self._calls.infer(self._with_headers(request, body), encode_answer, body.remaining_s)
        )

    def _with_headers(self, request: InferenceRequest, body: RequestBody) -> InferenceRequest:
        """Returns a request with what the headers of the client say of it."""
        forwarded = self._forwarded.of_http(body.headers.items())
        return request.of_trace(body.trace_id).with_parameters(forwarded)

    def _with_load(self, headers: list[tuple[bytes, bytes]], body: RequestBody) -> list[tuple[bytes, bytes]]:
        """Returns headers with a report of the load, if the client asks for it and may know it."""
        form = body.headers.get(_LOAD_FORMAT)
        if form is None:
            return headers
        try:
            self._restrictions.require("statistics", lambda name: body.headers.get(name.encode()))
        except ServiceError:
            return headers
        report = self._calls.endpoint_load.report(form, self._calls.registry.served())
        return headers if report is None else [*headers, (_LOAD_REPORT, report)]

    async def _inferred_again(self, body: RequestBody, content: bytes, model: str, version: str) -> Any:
        """Returns the answer of an inference that may have come before; see `_encode_short`.

        The only request is run while the loop waits, for a millisecond at most: nothing else would
        use that time but new requests, and waking the loop takes as long as many runs.
        """
        key = (model, version, content)
        known = self._known.find(key)
        begun = None
        forwarded = self._forwarded.of_http(body.headers.items())
        if known is not None and self._running == 1 and body.remaining_s is None and not forwarded:
            found = self._calls.run_known(known, body.trace_id)
            if isinstance(found, EndedRun):
                found.count()
                return found.answer
            begun = found
        try:
            parsed = parse_request(content, None)
            request = checked_request(model, version, parsed, self._calls.regions).of_trace(body.trace_id)
        finally:
            if begun is not None:
                begun[1].known.release()
        if known is None:
            known = self._known.keep(key, request)
        request = request.with_parameters(forwarded)
        note_known = None if known is None else partial(setattr, known, "run")
        if begun is not None:
            return await body.unless_gone(self._ended(request, begun, note_known))
        return await body.unless_gone(self._calls.infer(request, _encode_short, body.remaining_s, note_known))

    async def _ended(
        self,
        request: InferenceRequest,
        begun: tuple[ServedVersion, BegunRun],
        note_known: NoteKnown | None,
    ) -> object:
        """Returns the answer of a run that was begun, for which another thread waits."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[object] = loop.create_future()
        abandons: list[Callable[[], bool]] = []

        def ended(result: object, error: Exception | None) -> None:
            loop.call_soon_threadsafe(settle, result, error)

        def settle(result: object, error: Exception | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)

        def go_on(waiting: asyncio.Future[Callable[[], None] | None]) -> None:
            rest = waiting.result()
            if rest is not None:
                rest()

        waiting = loop.run_in_executor(
            None,
            partial(
                self._calls.begin,
                request,
                _encode_short,
                None,
                ended,
                abandons.append,
                _wait,
                begun,
                note_known,
            ),
        )
        # It goes on if the client leaves, since the lane has to be given back.
        waiting.add_done_callback(go_on)
        try:
            return await answer
        except asyncio.CancelledError:
            for abandon in abandons:
                abandon()
            raise

    @contextlib.asynccontextmanager
    async def _arriving(self, body: RequestBody, model: str, version: str) -> AsyncIterator[None]:
        """Makes the block read a request, unless it would be late, as its head says.

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

    async def _generate(self, body: RequestBody, model: str, version: str) -> Answer:
        answer = await self._generated(body, model, version)
        return 200, answer, self._with_load(_JSON, body)

    async def _generate_stream(self, body: RequestBody, model: str, version: str) -> Answer:
        """Answers with the only event of a stream, since a run has one answer."""
        answer = await self._generated(body, model, version)
        return 200, b"".join((b"data: ", answer, b"\n\n")), self._with_load(_EVENTS, body)

    async def _generated(self, body: RequestBody, model: str, version: str) -> bytes:
        found = self._calls.registry.find(model, version)
        async with self._arriving(body, model, version):
            content = await body.read(self._message_bytes)
        inputs = found.loaded.inputs
        request = await self._in_turn(
            partial(decode_generate_request, model, version, content, inputs), len(content)
        )
        answer: bytes = await body.unless_gone(
            self._calls.infer(self._with_headers(request, body), encode_generate_answer, body.remaining_s)
        )
        return answer

    # Shared memory.

    async def _region_status(self, body: RequestBody, region: str) -> Answer:
        return _json(list(as_json(self._regions.status(region))["regions"].values()))

    async def _register(self, body: RequestBody, region: str) -> Answer:
        given = small_document(await body.read(_SMALL_BODY_BYTES))
        key, offset, size = given.get("key"), given.get("offset", 0), given.get("byte_size")
        for name in ("key", "byte_size"):
            if name not in given:
                raise ServiceError(Status.INVALID, f"Shared memory register request has no '{name}' field")
        if not isinstance(key, str) or not is_size(offset) or not is_size(size):
            shown = ", ".join(quoted(repr(each)) for each in (key, offset, size))
            raise ServiceError(
                Status.INVALID,
                f"key, offset and byte_size are {shown}; text and two integers from 0 to 2^63-1 are expected",
            )
        self._regions.register(region, key, offset, size)  # type: ignore[arg-type]
        return 200, b"", _JSON

    async def _unregister(self, body: RequestBody, region: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        self._regions.unregister(region)
        return 200, b"", _JSON

    async def _cuda_status(self, body: RequestBody, region: str) -> Answer:
        return _json(list(as_json(self._regions.cuda_status(region))["regions"].values()))

    async def _register_cuda(self, body: RequestBody, region: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        self._regions.register_cuda(region)
        raise AssertionError("unreachable")

    async def _unregister_cuda(self, body: RequestBody, region: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        self._regions.unregister_cuda()
        return 200, b"", _JSON

    # Settings.

    async def _trace(self, body: RequestBody, model: str = "") -> Answer:
        given = small_document(await body.read(_SMALL_BODY_BYTES))
        changes = {key: setting_values(key, value) for key, value in given.items()}
        found = self._calls.trace_settings(model, changes)
        levels = found.pop("trace_level")
        return _json({"trace_level": levels, **{key: value for key, (value,) in found.items()}})

    async def _logging(self, body: RequestBody) -> Answer:
        given = small_document(await body.read(_SMALL_BODY_BYTES))
        self._calls.log_settings.change({key: each for key, each in given.items() if each is not None})
        return _json(self._calls.log_settings.current())


def _encode_short(answer: InferenceAnswer) -> object:
    """Encodes an answer; returns only JSON if no bytes follow it, else see `encode_answer`."""
    encoded, header_bytes = encode_answer(answer)
    return encoded if header_bytes is None else (encoded, header_bytes)


def _wait() -> None:
    """Says that a thread waits for a run, which keeps nobody else from anything."""


class _Route(NamedTuple):
    """Names what answers a request: the group of its call, the call, and the parts of its path."""

    group: str
    call: Callable[..., Awaitable[Answer]]
    given: Mapping[str, str]


def _error(message: str) -> bytes:
    return _ENCODER.encode({"error": message})


def _json(document: Any) -> Answer:
    return 200, _ENCODER.encode(document), _JSON


def _message(message: Any) -> Answer:
    return _json(as_json(message))
