"""The calls of the V2 protocol, independent of the transport."""

import json
import logging
from collections.abc import Callable
from typing import Any, Final

from neurald._version import __version__
from neurald.hal.lanes.opening import TensorDescription
from neurald.hal.process.rate_limited_logger import RateLimitedLogger
from neurald.service.inference.models.model_interface import Encode
from neurald.service.inference.models.registry import READY, Registry
from neurald.service.inference.models.runs.known_run import BegunRun, EndedRun, KnownRun, NoteKnown
from neurald.service.inference.models.served_version import ServedVersion
from neurald.service.inference.models.statistics.statistics import Total
from neurald.service.inference.protocol.element_types import datatype_of
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.known_requests import KnownRequest
from neurald.service.inference.protocol.messages import message_type
from neurald.service.inference.protocol.regions import NoRegions, RegionTable
from neurald.service.inference.protocol.tensors import (
    InferenceRequest,
    Parameter,
    quoted,
    require_few_members,
)
from neurald.service.inference.repository.model_config import PLATFORM
from neurald.service.inference.server.calls.direct_run import DirectRun
from neurald.service.inference.server.calls.endpoint_load import EndpointLoad
from neurald.service.inference.server.calls.host_usage import HostUsage
from neurald.service.inference.server.calls.log_settings import LogSettings
from neurald.service.inference.server.tracing.trace_settings import Changes
from neurald.service.inference.server.tracing.traces import RequestTraces

logger = logging.getLogger(__name__)

NAME: Final = "neurald"
EXTENSIONS: Final = (
    "binary_tensor_data",
    "classification",
    "logging",
    "model_configuration",
    "model_repository",
    "model_repository(unload_dependents)",
    "parameters",
    "schedule_policy",
    "statistics",
    "system_shared_memory",
    "cuda_shared_memory",
    "trace",
)
#: The parameters of a call that loads a model: the configuration, and files by "file:VERSION/NAME".
_CONFIG: Final = "config"
_FILE: Final = "file:"
#: The most characters of an error in the log, which has what a client has sent.
_MAX_LOGGED: Final = 500


class Calls:
    """Answers calls with messages of the protocol. Belongs to one event loop.

    Args:
        registry: the models.
        regions: shared memory that clients have registered.
        traces: the traces of requests.
        log_settings: the log settings of the front end's log.
        allow_control: whether clients may load and unload models.

    Attributes:
        host: the usage of this host.
        endpoint_load: reports the load of the service.
    """

    def __init__(
        self,
        registry: Registry,
        regions: RegionTable | None,
        traces: RequestTraces,
        log_settings: LogSettings,
        *,
        allow_control: bool = True,
    ) -> None:
        self.registry = registry
        self.regions = regions or NoRegions()
        self.log_settings = log_settings
        self._traces = traces
        self._allow_control = allow_control
        self._warnings = RateLimitedLogger(logger)
        self.host = HostUsage()
        self.endpoint_load = EndpointLoad(self.host)
        #: False until the models of the start are loaded, and from the moment when the end begins.
        self.is_open = False

    # State.

    @property
    def is_ready(self) -> bool:
        """True if all models that must be there can be run now."""
        return self.is_open and self.registry.is_ready

    def is_model_ready(self, name: str, version: str) -> bool:
        """Returns whether a model can be run now; False if there is none of this name.

        Raises:
            ServiceError: the version is not a number.
        """
        try:
            return self.registry.find(name, version).is_ready
        except ServiceError as error:
            if error.status is Status.INVALID:
                raise
            return False

    # Descriptions.

    def server_metadata(self) -> Any:
        """Returns a ServerMetadataResponse."""
        return message_type("ServerMetadataResponse")(name=NAME, version=__version__, extensions=EXTENSIONS)

    def model_metadata(self, name: str, version: str) -> Any:
        """Returns a ModelMetadataResponse; raises ServiceError if there is no such model."""
        found = self.registry.find(name, version)
        loaded = found.loaded
        return message_type("ModelMetadataResponse")(
            name=name,
            versions=[str(each) for each in self.registry.versions_of(name)],
            platform=PLATFORM,
            inputs=[_metadata(each) for each in loaded.inputs],
            outputs=[_metadata(each) for each in loaded.outputs],
        )

    def model_config(self, name: str, version: str) -> Any:
        """Returns a message ModelConfig; raises ServiceError if there is no such model."""
        return self.registry.find(name, version).config

    def statistics(self, name: str, version: str) -> Any:
        """Returns a ModelStatisticsResponse; raises ServiceError if there is no such model."""
        chosen = self.registry.served() if not name else self._served(name, version)
        return message_type("ModelStatisticsResponse")(model_stats=[_statistics(each) for each in chosen])

    def _served(self, name: str, version: str) -> list[ServedVersion]:
        """Returns a version of a model, or all; what is missing is named in Triton's words."""
        versions = self.registry.versions_of(name)
        try:
            chosen = [self.registry.find(name, version)]
            if not version:
                chosen = [self.registry.find(name, str(each)) for each in versions] or chosen
        except ServiceError as error:
            if error.status is Status.INVALID:
                raise
            what = "model version is not available for model " if versions else "model "
            rest = "" if versions else " is not available"
            raise ServiceError(Status.INVALID, f"requested {what}{quoted(name)}{rest}") from None
        return chosen

    # The repository.

    def repository_index(self, *, only_ready: bool) -> Any:
        """Returns a RepositoryIndexResponse."""
        entries = self.registry.index()
        response = message_type("RepositoryIndexResponse")()
        for each in entries:
            if not only_ready or each.state == READY:
                response.models.add(
                    name=each.name, version=each.version, state=each.state, reason=each.reason
                )
        return response

    async def load(self, name: str, parameters: dict[str, Any]) -> None:
        """Loads a model.

        Args:
            name: the name of the model.
            parameters: `config`, a configuration in JSON in place of that of the repository, and
                files of versions in place of the repository's, by `file:VERSION/NAME`.

        Raises:
            ServiceError: it cannot be loaded.
        """
        self._require_control()
        config: str | None = None
        files: dict[str, bytes] = {}
        for key, value in parameters.items():
            if key == _CONFIG and isinstance(value, str):
                config = value
            elif key.startswith(_FILE) and isinstance(value, bytes):
                files[key.removeprefix(_FILE)] = value
            elif key == _CONFIG or key.startswith(_FILE):
                expected = "string_param" if key == _CONFIG else "bytes_param"
                raise ServiceError(
                    Status.INVALID,
                    f"invalid value type for load parameter {quoted(key)}, expected {expected}.",
                )
            else:
                raise ServiceError(Status.INVALID, f"unrecognized load parameter {quoted(key)}")
        try:
            await self.registry.load(name, config, files)
        except ServiceError as error:
            shown = str(error)[:_MAX_LOGGED].encode("unicode_escape").decode("ascii")
            self._warnings.warning("a model is not loaded as a client asks: %s", shown)
            raise
        self.registry.note_choice(name, is_wanted=True)

    async def unload(self, name: str) -> None:
        """Unloads a model, if there is one of this name."""
        self._require_control()
        # Before its requests are answered, so that a front end that dies meanwhile leaves it, too.
        self.registry.note_choice(name, is_wanted=False)
        await self.registry.unload(name)
        # Again, since it may have waited for a call that loaded the model, and noted that.
        self.registry.note_choice(name, is_wanted=False)
        self._traces.settings.forget(name)

    def _require_control(self) -> None:
        if not self._allow_control:
            raise ServiceError(
                Status.UNAVAILABLE, "explicit model load / unload is not allowed if polling is enabled"
            )

    # Inference.

    def raw_request(self, name: str, version: str, content: memoryview) -> InferenceRequest:
        """Returns the request that raw bytes are; see `ServedVersion.raw_request`."""
        return self.registry.find(name, version).raw_request(content)

    async def infer(
        self,
        request: InferenceRequest,
        encode: Encode,
        timeout_s: float | None = None,
        note_known: NoteKnown | None = None,
    ) -> object:
        """Runs a model; see `ServedVersion.infer`."""
        trace = None
        try:
            found = self.registry.find(request.model, request.version)
            if self._traces.settings.is_on:
                trace = self._traces.begin(request, found.version)
            note_run = None if trace is None else trace.note_run
            return await found.infer(request, encode, timeout_s, note_run, note_known)
        finally:
            request.release()
            if trace is not None:
                self._traces.end(trace)

    def run_known(
        self, request: KnownRequest, trace_id: str
    ) -> EndedRun | tuple[ServedVersion, BegunRun] | None:
        """Runs a request again that has come before, in a thread of a transport.

        Args:
            request: whose `run` was noted by `infer` or `begin`, if it was.
            trace_id: the trace ID of the client's trace; empty if it takes none.

        Returns:
            The run, which the caller counts; what `begin` goes on with if it has not ended at once;
                None if nothing was done.
        """
        known = request.run
        if not isinstance(known, KnownRun) or self._traces.settings.is_on:
            return None
        try:
            version = self.registry.find(request.model, request.version)
        except ServiceError:
            return None
        found = version.run_known(known, trace_id)
        return (version, found) if isinstance(found, BegunRun) else found

    def begin(
        self,
        request: InferenceRequest,
        encode: Encode,
        timeout_s: float | None,
        ended: Callable[[object, Exception | None], None],
        begun: Callable[[Callable[[], bool]], None],
        will_wait: Callable[[], None] | None,
        begun_run: tuple[ServedVersion, BegunRun] | None = None,
        note_known: NoteKnown | None = None,
    ) -> Callable[[], None] | None:
        """Begins to run a model, in a thread of a transport; see `infer`.

        Args:
            request, encode, timeout_s: see `infer`.
            ended: the function that is called with the answer and the error, one of which is None.
                It raises nothing.
            begun: the function that is called, before the run, with one that ends the request
                early, without a call of `ended`; that returns False if the request has ended.
            will_wait: the function that is called before the thread waits for a run for longer;
                None if it must not. If it may, requests that need not wait for others are run by
                it.
            begun_run: what `run_known` has returned, if it has begun.
            note_known: receives how the request was run, for `run_known`.

        Returns:
            What the event loop has to call to go on; None if the request has ended.
        """
        run = DirectRun(request, self._traces, ended)
        begun(run.abandon)
        try:
            found, begun_at_once = begun_run or (self.registry.find(request.model, request.version), None)
            if will_wait is not None and run.begin_at_once(
                found, encode, timeout_s, begun_at_once, note_known
            ):
                return run.run_at_once(will_wait)
            if not self._traces.settings.is_on and (refusal := found.refusal(timeout_s, request)):
                run.fail(refusal)
                return None
        except Exception as error:
            run.fail(error)
            return None

        def go_on() -> None:
            if run.done():
                return
            try:
                run.begin(self.registry.find(request.model, request.version), encode, timeout_s)
            except Exception as error:
                run.fail(error)

        return go_on

    # Settings.

    def trace_settings(self, model: str, changes: Changes) -> dict[str, tuple[str, ...]]:
        """Changes settings of traces, and returns all.

        Args:
            model: whose settings; empty for those of the service.
            changes: new values by name; none clears a setting.

        Raises:
            ServiceError: there is no such model, or a value is not valid.
        """
        if model and not self.registry.versions_of(model):
            raise ServiceError(Status.INVALID, f"Request for unknown model : {quoted(model)[1:-1]}")
        if changes:
            self._traces.settings.change(model, changes)
        return self._traces.settings.of(model)


def model_parameters(given: Any) -> dict[str, Parameter | bytes]:
    """Returns the parameters of a request for the repository."""
    result: dict[str, Parameter | bytes] = {}
    for key, value in given.items():
        choice = value.WhichOneof("parameter_choice")
        if choice is not None:
            result[key] = getattr(value, choice)
    return result


def parse_json_parameters(body: bytes) -> dict[str, Any]:
    """Returns the parameters of a request for the repository over HTTP.

    Raises:
        ServiceError: the body is not such a document.
        RecursionError: it is nested too deeply.
    """
    if not body:
        return {}
    require_few_members(body)
    try:
        document = json.loads(body)
    except ValueError as error:
        raise ServiceError(Status.INVALID, f"failed to parse the request JSON: {error}") from None
    if not isinstance(document, dict):
        raise ServiceError(Status.INVALID, "the request is not a JSON object")
    return document


def _metadata(tensor: TensorDescription) -> Any:
    return message_type("ModelMetadataResponse.TensorMetadata")(
        name=tensor.name,
        datatype=datatype_of(tensor.kind),
        shape=[-1] if tensor.shape is None else tensor.shape,
    )


def _statistics(version: ServedVersion) -> Any:
    found = version.statistics
    result = message_type("ModelStatistics")(
        name=version.name,
        version=str(version.version),
        last_inference=found.last_ms,
        inference_count=found.inferences,
        execution_count=found.executions,
    )
    stats = result.inference_stats
    for target, total in (
        (stats.success, found.success),
        (stats.fail, found.failure),
        (stats.queue, found.queue),
        (stats.compute_input, found.compute_input),
        (stats.compute_infer, found.compute_infer),
        (stats.compute_output, found.compute_output),
        (stats.cache_hit, Total()),
        (stats.cache_miss, Total()),
    ):
        _set(target, total)
    for size, batch in sorted(found.batches.items()):
        entry = result.batch_stats.add(batch_size=size)
        _set(entry.compute_input, batch.compute_input)
        _set(entry.compute_infer, batch.compute_infer)
        _set(entry.compute_output, batch.compute_output)
    return result


def _set(target: Any, total: Total) -> None:
    target.count, target.ns = total.count, total.ns
    target.SetInParent()
