"""The V2 protocol over HTTP, as an ASGI application."""

import asyncio
import hmac
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from neurald.hal.errors import Error
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.messages import as_json
from neurald.service.inference.protocol.tensors import quoted
from neurald.service.inference.server.admission.header_forwarding import ForwardedHeaders
from neurald.service.inference.server.admission.request_budget import RequestBudget
from neurald.service.inference.server.admission.restrictions import Restrictions
from neurald.service.inference.server.calls.calls import Calls, parse_json_parameters
from neurald.service.inference.server.http.answers import (
    JSON,
    Answer,
    error_content,
    json_answer,
    message_answer,
)
from neurald.service.inference.server.http.inferences import HttpInferences
from neurald.service.inference.server.http.json_parameters import (
    is_size,
    load_parameter,
    setting_values,
    small_document,
)
from neurald.service.inference.server.http.metrics import metrics_text
from neurald.service.inference.server.http.openapi import openapi_document
from neurald.service.inference.server.http.request_body import (
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
#: The largest body of a call that has neither tensors nor files.
_SMALL_BODY_BYTES: Final = 1 << 20
#: How many paths of requests are remembered with what answers them.
_KEPT_ROUTES: Final = 128
Send = Callable[[dict[str, Any]], Awaitable[None]]
_MODEL: Final = r"/v2/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?"
_REGION: Final = r"(?:/region/(?P<region>[^/]+))?"
_CONTROL: Final = "model-repository"
_MEMORY: Final = "shared-memory"
_TEXT: Final = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]


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
        self._counts_latencies = counts_latencies
        self._regions = regions
        self._budget = budget
        self._message_bytes = message_bytes
        inferences = HttpInferences(
            calls, message_bytes=message_bytes, restrictions=restrictions, forwarded=forwarded
        )
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
                ("POST", "inference", _MODEL + "/infer", inferences.infer),
                ("POST", "inference", _MODEL + "/generate", inferences.generate),
                ("POST", "inference", _MODEL + "/generate_stream", inferences.generate_stream),
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
            status, content, headers = await self._result(scope, body)
            if not body.is_complete:
                await body.discard()
        except ClientGone:
            return
        except asyncio.CancelledError:
            # The server cancels what takes too long when it stops.
            status, content, headers = 503, error_content("the service is stopping; try again"), JSON
        length = (b"content-length", str(len(content)).encode())
        closing = [(b"connection", b"close")] if body.needs_close else []
        await send({"type": "http.response.start", "status": status, "headers": [*headers, length, *closing]})
        await send({"type": "http.response.body", "body": content})

    async def _result(self, scope: Scope, body: RequestBody) -> Answer:
        """Returns the answer to a request, whatever fails, and gives back what its body takes.

        Raises:
            ClientGone: the client has left.
        """
        try:
            return await self._answer(scope, body)
        except ClientGone:
            raise
        except ServiceError as error:
            return _CODES[error.status], error_content(str(error)), JSON
        except Error as error:
            return 500, error_content(str(error)), JSON
        except Exception as error:
            logger.exception("a request failed")
            return 500, error_content(f"unexpected {type(error).__name__}"), JSON
        finally:
            body.release()

    async def _answer(self, scope: Scope, body: RequestBody) -> Answer:
        try:
            require_sound_head(scope)
        except ServiceError:
            body.refuse()
            raise
        path = scope["raw_path"].partition(b"?")[0].decode("latin-1")
        route = self._route_of(scope["method"], path)
        if not isinstance(route, _Route):
            if route:
                return (
                    405,
                    error_content(f"{quoted(path)} takes {' and '.join(route)}"),
                    [*JSON, (b"allow", ", ".join(route).encode())],
                )
            return 404, error_content(f"there is no {quoted(path)}; /v2/openapi.json lists the calls"), JSON
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
        return 400, error_content("Model version not ready"), JSON

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
        return message_answer(self._calls.server_metadata())

    async def _openapi(self, body: RequestBody) -> Answer:
        return json_answer(openapi_document())

    async def _metadata(self, body: RequestBody, model: str, version: str) -> Answer:
        return message_answer(self._calls.model_metadata(model, version))

    async def _config(self, body: RequestBody, model: str, version: str) -> Answer:
        return message_answer(self._calls.model_config(model, version))

    async def _statistics(self, body: RequestBody, model: str, version: str) -> Answer:
        return message_answer(self._calls.statistics(model, version))

    async def _all_statistics(self, body: RequestBody) -> Answer:
        return message_answer(self._calls.statistics("", ""))

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
        return json_answer(as_json(index)["models"])

    async def _load(self, body: RequestBody, model: str) -> Answer:
        document = small_document(await body.read(self._message_bytes))
        given = document.get("parameters", {})
        if not isinstance(given, dict):
            raise ServiceError(Status.INVALID, "parameters is not a JSON object")
        parameters = {key: load_parameter(key, value) for key, value in given.items()}
        await self._calls.load(model, parameters)
        return 200, b"", JSON

    async def _unload(self, body: RequestBody, model: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        await self._calls.unload(model)
        return 200, b"", JSON

    # Shared memory.

    async def _region_status(self, body: RequestBody, region: str) -> Answer:
        return json_answer(list(as_json(self._regions.status(region))["regions"].values()))

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
        return 200, b"", JSON

    async def _unregister(self, body: RequestBody, region: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        self._regions.unregister(region)
        return 200, b"", JSON

    async def _cuda_status(self, body: RequestBody, region: str) -> Answer:
        return json_answer(list(as_json(self._regions.cuda_status(region))["regions"].values()))

    async def _register_cuda(self, body: RequestBody, region: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        self._regions.register_cuda(region)
        raise AssertionError("unreachable")

    async def _unregister_cuda(self, body: RequestBody, region: str) -> Answer:
        await body.read(_SMALL_BODY_BYTES)
        self._regions.unregister_cuda()
        return 200, b"", JSON

    # Settings.

    async def _trace(self, body: RequestBody, model: str = "") -> Answer:
        given = small_document(await body.read(_SMALL_BODY_BYTES))
        changes = {key: setting_values(key, value) for key, value in given.items()}
        found = self._calls.trace_settings(model, changes)
        levels = found.pop("trace_level")
        return json_answer({"trace_level": levels, **{key: value for key, (value,) in found.items()}})

    async def _logging(self, body: RequestBody) -> Answer:
        given = small_document(await body.read(_SMALL_BODY_BYTES))
        self._calls.log_settings.change({key: each for key, each in given.items() if each is not None})
        return json_answer(self._calls.log_settings.current())


class _Route(NamedTuple):
    """Names what answers a request: the group of its call, the call, and the parts of its path."""

    group: str
    call: Callable[..., Awaitable[Answer]]
    given: Mapping[str, str]
