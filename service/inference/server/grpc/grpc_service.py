"""The V2 protocol over gRPC."""

import asyncio
import contextlib
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import grpc
import grpc.aio

from neurald.hal.errors import Error
from neurald.hal.rpc.transport.call_times import TRACE_KEY
from neurald.service.inference.models.runs.known_run import EndedRun, KnownRun
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.grpc_encoding import (
    decode,
    decode_request,
    encode_answer,
    encode_stream_answer,
    encode_stream_failure,
)
from neurald.service.inference.protocol.known_requests import MAX_KNOWN_BYTES, KnownRequests
from neurald.service.inference.protocol.messages import SERVICE, message_type
from neurald.service.inference.protocol.tensors import InferenceRequest
from neurald.service.inference.protocol.trace_context import trace_id_of
from neurald.service.inference.server.admission.header_forwarding import ForwardedHeaders
from neurald.service.inference.server.admission.request_budget import RequestBudget
from neurald.service.inference.server.admission.restrictions import Restrictions
from neurald.service.inference.server.calls.calls import Calls, model_parameters
from neurald.service.inference.server.calls.endpoint_load import (
    BINARY,
    LOAD_FORMAT,
    LOAD_MESSAGE,
    LOAD_REPORT,
)
from neurald.service.inference.server.grpc.server_call import (
    BeginCall,
    DirectMethod,
    ServerCall,
    WillWait,
)
from neurald.service.inference.server.regions.region_calls import RegionCalls

logger = logging.getLogger(__name__)

#: How many requests of one stream are under way at once.
_STREAM_DEPTH: Final = 16
_CODES: Final = {
    Status.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Status.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Status.EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    Status.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Status.EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Status.TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Status.LATE: grpc.StatusCode.DEADLINE_EXCEEDED,
    Status.CANCELLED: grpc.StatusCode.CANCELLED,
    Status.UNIMPLEMENTED: grpc.StatusCode.UNIMPLEMENTED,
    Status.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Status.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    Status.INTERNAL: grpc.StatusCode.INTERNAL,
}

#: Metadata of a stream that has the first error end it, with the status of that error.
_ENDS_AT_ERROR: Final = "triton_grpc_error"
#: What the names of headers begin with that restricted calls need.
GRPC_HEADER_PREFIX: Final = "triton-grpc-protocol-"
_INFERENCE: Final = "inference"
#: The group of each call that may be restricted.
_GROUPS: Final = {
    "ServerLive": "health",
    "ServerReady": "health",
    "ModelReady": "health",
    "ServerMetadata": "metadata",
    "ModelMetadata": "metadata",
    "ModelConfig": "model-config",
    "ModelStatistics": "statistics",
    "RepositoryIndex": "model-repository",
    "RepositoryModelLoad": "model-repository",
    "RepositoryModelUnload": "model-repository",
    "SystemSharedMemoryStatus": "shared-memory",
    "SystemSharedMemoryRegister": "shared-memory",
    "SystemSharedMemoryUnregister": "shared-memory",
    "CudaSharedMemoryStatus": "shared-memory",
    "CudaSharedMemoryRegister": "shared-memory",
    "CudaSharedMemoryUnregister": "shared-memory",
    "TraceSetting": "trace",
    "LogSettings": "logging",
}

#: Calls that are answered in the thread that has received them, since they take less time than
#: waking the thread of the loop does.
_AT_ONCE: Final = ("ServerLive", "ServerReady", "ModelReady")

Call = Callable[[Any], Any]
Abandon = Callable[[], bool]


class V2Service:
    """Turns messages into calls, and answers and errors into messages.

    Args:
        calls: answers calls.
        regions: calls for shared memory.
        budget: memory of all requests that are there at once.
        token: the token that clients must send; empty for none.
        restrictions: the restrictions of calls to some clients.
        forwarded: the metadata that become parameters of inferences.
    """

    def __init__(
        self,
        calls: Calls,
        regions: RegionCalls,
        budget: RequestBudget,
        token: str,
        restrictions: Restrictions,
        forwarded: ForwardedHeaders,
    ) -> None:
        self._calls = calls
        self._restrictions = restrictions
        self._forwarded = forwarded
        self._regions = regions
        self._budget = budget
        self._known = KnownRequests(calls.regions)
        self._token = f"Bearer {token}".encode() if token else b""

    def handlers(self) -> grpc.GenericRpcHandler:
        """Returns the handlers of all calls of the service."""
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(
                DirectMethod(self._at_once(name, call)) if name in _AT_ONCE else self._unary(name, call)
            )
            for name, call in self._table().items()
        }
        handlers["ModelInfer"] = grpc.unary_unary_rpc_method_handler(
            DirectMethod(self._begin_infer, self._refuses_infer)
        )
        handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(self._stream)
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _table(self) -> dict[str, Call]:
        calls, regions = self._calls, self._regions

        async def load(request: Any) -> Any:
            _refuse_repository(request)
            await calls.load(request.model_name, model_parameters(request.parameters))
            return message_type("RepositoryModelLoadResponse")()

        async def unload(request: Any) -> Any:
            _refuse_repository(request)
            dependents = model_parameters(request.parameters).get("unload_dependents", False)
            if not isinstance(dependents, bool):
                raise ServiceError(
                    Status.INVALID,
                    "invalid value type for 'unload_dependents' parameter, expected bool_param.",
                )
            await calls.unload(request.model_name)
            return message_type("RepositoryModelUnloadResponse")()

        def index(request: Any) -> Any:
            _refuse_repository(request)
            return calls.repository_index(only_ready=request.ready)

        def change_log(request: Any) -> Any:
            given = request.settings.items()
            calls.log_settings.change(
                {
                    key: getattr(value, choice)
                    for key, value in given
                    if (choice := value.WhichOneof("parameter_choice")) is not None
                }
            )
            return _settings("LogSettingsResponse", calls.log_settings.current())

        def change_trace(request: Any) -> Any:
            changes = {key: tuple(value.value) for key, value in request.settings.items()}
            found = calls.trace_settings(request.model_name, changes)
            return _settings("TraceSettingResponse", found)

        return {
            "ServerLive": lambda _: message_type("ServerLiveResponse")(live=True),
            "ServerReady": lambda _: message_type("ServerReadyResponse")(ready=calls.is_ready),
            "ModelReady": lambda r: message_type("ModelReadyResponse")(
                ready=calls.is_model_ready(r.name, r.version)
            ),
            "ServerMetadata": lambda _: calls.server_metadata(),
            "ModelMetadata": lambda r: calls.model_metadata(r.name, r.version),
            "ModelConfig": lambda r: message_type("ModelConfigResponse")(
                config=calls.model_config(r.name, r.version)
            ),
            "ModelStatistics": lambda r: calls.statistics(r.name, r.version),
            "RepositoryIndex": index,
            "RepositoryModelLoad": load,
            "RepositoryModelUnload": unload,
            "SystemSharedMemoryStatus": lambda r: regions.status(r.name),
            "SystemSharedMemoryRegister": lambda r: regions.register(r.name, r.key, r.offset, r.byte_size),
            "SystemSharedMemoryUnregister": lambda r: regions.unregister(r.name),
            "CudaSharedMemoryStatus": lambda r: regions.cuda_status(r.name),
            "CudaSharedMemoryRegister": lambda r: regions.register_cuda(r.name),
            "CudaSharedMemoryUnregister": lambda _: regions.unregister_cuda(),
            "TraceSetting": change_trace,
            "LogSettings": change_log,
        }

    def _unary(self, name: str, call: Call) -> Callable[[bytes, Any], Awaitable[bytes]]:
        kind = message_type(f"{name}Request")

        async def handle(data: bytes, context: ServerCall) -> bytes:
            async with self._errors(context, _GROUPS[name]):
                with self._budget.holding(len(data)):
                    answer = call(decode(kind, data))
                    if isinstance(answer, Awaitable):
                        answer = await answer
                encoded: bytes = answer.SerializeToString()
                return encoded
            raise AssertionError("unreachable")

        return handle

    def _at_once(self, name: str, call: Call) -> BeginCall:
        """Returns what answers a call in a thread of the server."""
        kind, group = message_type(f"{name}Request"), _GROUPS[name]

        def begin(message: bytes, context: ServerCall, _: WillWait) -> None:
            try:
                self._admit(context, group)
                context.finish(call(decode(kind, message)).SerializeToString())
            except Exception as error:
                _refuse(context, error)

        return begin

    def _refuses_infer(self, call: ServerCall) -> bool:
        """Ends an inference that would be late; see `DirectMethod`."""
        # Only then it is known what a request is for of which nothing was received.
        version = self._calls.registry.only()
        if version is None:
            return False
        refusal: ServiceError | None
        try:
            # Others must not count as requests that arrive.
            self._admit(call, _INFERENCE)
            call.is_admitted = True
            refusal = version.refusal(call.time_remaining())
        except ServiceError as error:
            refusal = error.with_traceback(None)
        if refusal is None:
            call.message_follows(version.arrivals.begin())
            return False
        _refuse(call, refusal)
        return True

    def _begin_infer(
        self, message: bytes, call: ServerCall, will_wait: WillWait
    ) -> Callable[[], None] | None:
        """Begins an inference; see `DirectMethod`."""
        begun_run = None
        try:
            if not call.is_admitted:
                self._admit(call, _INFERENCE)
            trace_id, load_form = _asked(call)
            added = self._forwarded.of_grpc(call.invocation_metadata())
            self._budget.take(len(message))
            known, id_field = self._known.find(message)
            if known is not None and will_wait is not None and not added:
                found = self._calls.run_known(known, trace_id)
                if isinstance(found, EndedRun):
                    self._budget.give_back(len(message))
                    self._finish(call, found.answer + id_field, load_form)
                    found.count()
                    return None
                begun_run = found
                if begun_run is not None:
                    begun_run[1].id_field = id_field
        except Exception as error:
            _refuse(call, error)
            return None

        def ended(answer: object, error: Exception | None) -> None:
            self._budget.give_back(len(message))
            if error is not None:
                _refuse(call, error)
            else:
                assert isinstance(answer, bytes)  # noqa: S101 - what `encode_answer` returns
                self._finish(call, answer, load_form)

        def begun(abandon: Abandon) -> None:
            def leave() -> None:
                if abandon():
                    self._budget.give_back(len(message))

            call.abandon_by(leave)

        def note_known(run: KnownRun) -> None:
            known, id_field = self._known.find(message)
            if known is not None:
                run.answer = run.answer.removesuffix(id_field)
                known.run = run

        try:
            request = self._known.decode(message).of_trace(trace_id).with_parameters(added)
        except Exception as error:
            ended(None, error)
            return None
        finally:
            if begun_run is not None:
                begun_run[1].known.release()
        return self._calls.begin(
            request,
            encode_answer,
            call.time_remaining(),
            ended,
            begun,
            will_wait,
            begun_run,
            None if len(message) > MAX_KNOWN_BYTES else note_known,
        )

    def _finish(self, call: ServerCall, answer: bytes, load_form: bytes | None) -> None:
        """Ends an inference, with a report of the load if the client wants it and may know it.

        Args:
            call: the call.
            answer: its answer.
            load_form: the form of the report that the client wants; None if it wants none.
        """
        if load_form is None:
            call.finish(answer)
            return
        trailing: list[tuple[str, str | bytes]] = []
        with contextlib.suppress(ServiceError):
            self._restrictions.require("statistics", partial(_sent, call))
            load, served = self._calls.endpoint_load, self._calls.registry.served()
            if load_form == BINARY:
                trailing.append((LOAD_MESSAGE, load.message(served)))
            elif (report := load.report(load_form, served)) is not None:
                trailing.append((LOAD_REPORT, report.decode()))
        call.finish(answer, tuple(trailing))

    async def _stream(self, requests: AsyncIterator[bytes], context: ServerCall) -> AsyncIterator[bytes]:
        """Answers the requests of a stream in their order, with several under way at once."""
        async with self._errors(context, _INFERENCE):
            metadata = context.invocation_metadata()
            ends_at_error = (_ENDS_AT_ERROR, "true") in metadata
            answers: asyncio.Queue[asyncio.Task[bytes] | None] = asyncio.Queue(_STREAM_DEPTH)
            tasks: set[asyncio.Task[bytes]] = set()

            async def read() -> None:
                async for data in requests:
                    task = asyncio.create_task(self._streamed(data, context, ends_at_error=ends_at_error))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                    await answers.put(task)
                await answers.put(None)

            reader = asyncio.create_task(read())
            try:
                while (task := await answers.get()) is not None:
                    yield await task
            finally:
                reader.cancel()
                for task in tuple(tasks):
                    task.cancel()

    async def _streamed(self, data: bytes, context: ServerCall, *, ends_at_error: bool) -> bytes:
        """Answers one request of a stream; errors are answers, too, unless they end the stream."""
        request: InferenceRequest | None = None
        try:
            with self._budget.holding(len(data)):
                request = decode_request(data, self._calls.regions).of_trace(_asked(context)[0])
                request = request.with_parameters(self._forwarded.of_grpc(context.invocation_metadata()))
                answer = await self._calls.infer(request, encode_answer)
            assert isinstance(answer, bytes)  # noqa: S101 - what `encode_answer` returns
            return encode_stream_answer(answer)
        except (ServiceError, Error) as error:
            if ends_at_error:
                raise
            return encode_stream_failure(request, str(error))
        except Exception as error:
            if ends_at_error:
                raise
            logger.exception("a request of a stream failed")
            return encode_stream_failure(request, f"unexpected {type(error).__name__}")

    def _admit(self, context: ServerCall, group: str) -> None:
        """Raises ServiceError if the client has not the token, or a header that the call needs."""
        find = partial(_sent, context)
        if self._token and not hmac.compare_digest(find("authorization") or b"", self._token):
            raise ServiceError(
                Status.UNAUTHENTICATED, "this service needs the metadata authorization: Bearer TOKEN"
            )
        self._restrictions.require(group, find)

    @contextlib.asynccontextmanager
    async def _errors(self, context: ServerCall, group: str) -> AsyncIterator[None]:
        """Admits the client to the call, and turns errors of the block into its status."""
        try:
            self._admit(context, group)
            yield
        except Exception as error:
            _refuse(context, error)
            raise grpc.aio.AbortError from error


def _sent(call: ServerCall, name: str) -> bytes | None:
    """Returns an entry of the client's metadata; None if there is none of this name."""
    for key, value in call.invocation_metadata() or ():
        if key == name:
            return value if isinstance(value, bytes) else value.encode()
    return None


def _asked(call: ServerCall) -> tuple[str, bytes | None]:
    """Returns what a client asks for beside its inference, from one look at its metadata.

    Returns:
        The client's trace, empty if it takes none; and the form of the report of the load that it
            wants, None for no report.
    """
    trace_id, load_form = "", None
    for key, value in call.invocation_metadata():
        if key == TRACE_KEY:
            trace_id = trace_id_of(value if isinstance(value, bytes) else value.encode())
        elif key == LOAD_FORMAT:
            load_form = value if isinstance(value, bytes) else value.encode()
    return trace_id, load_form


def _refuse(call: ServerCall, error: Exception) -> None:
    """Ends a call with the status of an error."""
    if isinstance(error, ServiceError):
        call.refuse(_CODES[error.status], str(error))
    elif isinstance(error, Error):
        call.refuse(grpc.StatusCode.INTERNAL, str(error))
    elif not isinstance(error, grpc.aio.AbortError):
        logger.error("a call failed", exc_info=error)
        call.refuse(grpc.StatusCode.INTERNAL, f"unexpected {type(error).__name__}")


def _refuse_repository(request: Any) -> None:
    if request.repository_name:
        raise ServiceError(Status.UNIMPLEMENTED, "'repository_name' specification is not supported")


def _settings(kind: str, values: Mapping[str, Any]) -> Any:
    response = message_type(kind)()
    for key, value in values.items():
        entry = response.settings[key]
        if isinstance(value, tuple):
            entry.value.extend(value)
        elif isinstance(value, bool):
            entry.bool_param = value
        elif isinstance(value, int):
            entry.uint32_param = value
        else:
            entry.string_param = value
    return response
