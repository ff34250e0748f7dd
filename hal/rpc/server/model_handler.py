"""The calls that ask about models, have the device prepare them, and release them."""

import contextlib
import threading
from collections.abc import Sequence
from functools import partial

from neurald._proto import device_pb2, types_pb2
from neurald.hal.accounting.account import charging
from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.admission import Admission
from neurald.hal.admission.sessions.session import Session
from neurald.hal.admission.sessions.shared_models import SharedModels
from neurald.hal.cache.artifact_seal import check_seal, make_seal, named_tokens
from neurald.hal.cache.variants import daemon_variants
from neurald.hal.compiling.compile_admission import CompileAdmission
from neurald.hal.compiling.session_pool import SessionPool
from neurald.hal.crashes.breadcrumbs import CrashPhase, Crumb
from neurald.hal.crashes.watch import CrashWatch, encode_pattern
from neurald.hal.device import (
    Artifact,
    CacheRecord,
    Device,
    PreparedModel,
    PrepareOptions,
    Verdict,
    declared_extensions,
)
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.extension_support import require_extensions
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.model import Model
from neurald.hal.model.types import FeatureLevel
from neurald.hal.records import replace
from neurald.hal.rpc.server.call_trace import phase
from neurald.hal.rpc.server.execution_handler import is_writable
from neurald.hal.rpc.wire.device import cache_record_to_wire, prepare_options_from_wire, verdicts_to_wire
from neurald.hal.rpc.wire.model import model_from_wire
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.validation.model_rules import validate_model
from neurald.hal.validation.shape_inference import forget_bindings
from neurald.hal.validation.verdict_rules import checked_verdicts


class ModelHandler:
    """Makes one device prepare the models of many sessions. Thread-safe.

    Args:
        device: the device that prepares them.
        limits: the limits of sessions.
        admission: the admission of the daemon.
        watch: knows which models kill the driver.
        compilers: compile for the device in other processes; None if it compiles in this one.
    """

    def __init__(
        self,
        device: Device,
        limits: Limits,
        admission: Admission,
        watch: CrashWatch,
        compilers: SessionPool | None,
    ) -> None:
        self._admission = admission
        self._device = device
        self._watch = watch
        self._compilers = compilers
        self._compile_admission = CompileAdmission(limits) if compilers is None else compilers.admission
        self._extensions = declared_extensions(device)
        self._shared = SharedModels()

    def get_supported_operations(
        self, session: Session, message: device_pb2.GetSupportedOperationsRequest
    ) -> device_pb2.GetSupportedOperationsReply:
        """Returns the device's verdict for each operation of a valid model."""
        self._admission.require_responsive()
        with (
            phase("read the model"),
            self._admission.reading_model(session, message.model.ByteSize(), None),
        ):
            model = self._model(session, message.model)
            validate_model(model)
            crumb, _ = self._crumb(model, message.model)
        require_extensions(model, self._device)
        with charging(session.accounts.memory):
            with phase("driver"):
                verdicts = self._watch.supported(model, crumb, session.number, lambda: self._verdicts(model))
            return verdicts_to_wire(verdicts)

    def _verdicts(self, model: Model) -> Sequence[Verdict]:
        answer = self._device.supported_operations(model)
        return checked_verdicts(answer, len(model.main.operations), self._device.name)

    def prepare_model(
        self,
        session: Session,
        message: device_pb2.PrepareModelRequest,
        cancellation: Cancellation | None = None,
    ) -> device_pb2.PrepareModelReply:
        """Makes the device prepare a valid model.

        Args:
            session: the session of the client.
            message: the message with the model.
            cancellation: the cancellation that ends the work once the client no longer waits.
        """
        self._admission.require_responsive()
        with (
            phase("read the model"),
            self._admission.reading_model(session, message.model.ByteSize(), cancellation),
        ):
            model = self._model(session, message.model)
            options = prepare_options_from_wire(message.options, self._extensions)
            session.models.require_space()
            level = validate_model(model)
            crumb, wire = self._crumb(model, message.model)
            self._watch.guard.require_allowed(model)
            if self._compilers is not None:
                forget_bindings(model)  # it is not used here from now on, and may wait for long
        # Operations of no released level are left to the device.
        if self._device.feature_level < level < FeatureLevel.EXPERIMENTAL:
            raise BadData(
                f"the model needs feature level {level.name}; "
                f"{self._device.name} has {self._device.feature_level.name}"
            )
        require_extensions(model, self._device)
        # A device that caches nothing is not asked for an artifact.
        cache_key = options.cache_key if self._device.cache_files_needed else b""
        with (
            self._admission.admit(options),
            self._shared.claim(session, wire, model.pools, options, cancellation) as claim,
        ):
            record = claim.found_record
            if claim.found is None:
                options = replace(options, cancellation=cancellation)
                handle, record = self._add_prepared(session, model, wire, crumb, options)
            else:
                handle = session.models.add_shared(claim.found, options.priority, cache_key)
            claim.keep(session.models.find(handle), record)
        kept = None if record is None else cache_record_to_wire(record)
        return device_pb2.PrepareModelReply(
            prepared_model=handle,
            has_artifact=bool(cache_key),
            kept=kept,
            improves_later=bool(cache_key) and session.models.find(handle).improved is not None,
        )

    def _add_prepared(
        self, session: Session, model: Model, wire: bytes, crumb: Crumb, options: PrepareOptions
    ) -> tuple[int, CacheRecord | None]:
        """Makes the device prepare a model; returns its handle, and its entry in the cache."""
        cache_key = options.cache_key if self._device.cache_files_needed else b""
        variants = daemon_variants(self._device, model, options) if cache_key else None
        compiler = None
        if self._compilers is not None:
            on_crash = partial(self._watch.helper_died, crumb)
            compiler = self._compilers.compiler(session, wire, model.pools, options, on_crash)
        options = replace(options, variants=variants, compiler=compiler)
        with charging(session.accounts.memory):
            prepared_model = self._executable(self._prepare(session, model, crumb, options))
        improved = _improvement(prepared_model)
        handle = session.models.add(model, prepared_model, options.priority, cache_key, crumb, improved)
        return handle, None if variants is None else variants.record

    def _prepare(
        self, session: Session, model: Model, crumb: Crumb, options: PrepareOptions
    ) -> PreparedModel:
        """Makes the device prepare a model; one that compiles in this process is admitted first."""
        with contextlib.ExitStack() as admitted:
            if options.compiler is None:
                with phase("wait for the compiler"):
                    stop = admitted.enter_context(
                        self._compile_admission.slot(
                            session, options.priority, options.deadline_s, options.cancellation
                        )
                    )
                options = replace(options, cancellation=stop)
            with phase("driver"), self._watch.under_way(CrashPhase.PREPARE, crumb, session.number):
                return self._device.prepare_model(model, options)

    def _executable(self, answer: PreparedModel) -> PreparedModel:
        """Returns what the driver answered to a preparation.

        Raises:
            OpFailed: it is not a prepared model.
        """
        if not callable(getattr(answer, "execute", None)):
            raise OpFailed(
                f"the driver of {self._device.name} has a fault: a preparation returned a "
                f"{type(answer).__name__}; a prepared model is expected"
            )
        return answer

    def get_improvement(
        self, session: Session, message: device_pb2.GetImprovementRequest
    ) -> device_pb2.GetImprovementReply:
        """Tells whether a prepared model runs faster code than at first."""
        improved = session.models.find(message.prepared_model).improved
        return device_pb2.GetImprovementReply(is_improved=improved is not None and improved.is_set())

    def get_artifact(
        self, session: Session, message: device_pb2.GetArtifactRequest
    ) -> device_pb2.GetArtifactReply:
        """Sends the sealed artifact of a prepared model, if a key was given and there is one."""
        registered = session.models.find(message.prepared_model)
        with self._admission.track(), charging(registered.account):
            artifact = registered.prepared_model.artifact() if registered.cache_key else None
            if artifact is None:
                return device_pb2.GetArtifactReply()
            seal = make_seal(
                self._device,
                registered.model,
                registered.cache_key,
                artifact,
                encode_pattern(registered.crumb),
            )
            self._shared.add_artifact(session, registered, seal)
            memories = (*artifact.model, *artifact.data)
            tokens = named_tokens(
                memories, session.memories.add_results(memory for memory in memories if memory.size)
            )
        count = len(artifact.model)
        return device_pb2.GetArtifactReply(
            artifact=device_pb2.Artifact(model_cache=tokens[:count], data_cache=tokens[count:], seal=seal)
        )

    def prepare_model_from_cache(
        self, session: Session, message: device_pb2.PrepareModelFromCacheRequest
    ) -> device_pb2.PrepareModelReply:
        """Makes the device restore a prepared model from its artifact, after checking the seal."""
        self._admission.require_responsive()
        options = prepare_options_from_wire(message.options, self._extensions)
        artifact = Artifact(
            model=tuple(self._artifact_memory(session, token) for token in message.artifact.model_cache),
            data=tuple(self._artifact_memory(session, token) for token in message.artifact.data_cache),
            seal=message.artifact.seal,
        )
        session.models.require_space()
        with self._admission.admit(options), charging(session.accounts.memory):
            seal = check_seal(self._device, artifact, options.cache_key)
            crumb = self._watch.crumb_of_artifact(seal.pattern, options.cache_key)
            self._watch.guard.require_pattern_allowed(crumb.pattern)
            with self._shared.claim(session, artifact.seal, (), options) as claim:
                if claim.found is not None:
                    improved = claim.found.improved
                    cache_key = options.cache_key if improved else b""
                    handle = session.models.add_shared(claim.found, options.priority, cache_key)
                else:
                    with (
                        phase("driver"),
                        self._watch.under_way(CrashPhase.LOAD, crumb, session.number),
                    ):
                        prepared_model = self._executable(
                            self._device.prepare_model_from_cache(replace(artifact, seal=b""), options)
                        )
                    interface = seal.interface_model(self._extensions)
                    improved = _improvement(prepared_model)
                    cache_key = options.cache_key if improved else b""
                    handle = session.models.add(
                        interface, prepared_model, options.priority, cache_key, crumb, improved
                    )
                claim.keep(session.models.find(handle), None)
        return device_pb2.PrepareModelReply(
            prepared_model=handle, has_artifact=improved is not None, improves_later=improved is not None
        )

    def release_prepared_model(
        self, session: Session, message: device_pb2.ReleasePreparedModelRequest
    ) -> device_pb2.ReleasePreparedModelReply:
        """Releases a prepared model."""
        session.models.release(message.prepared_model)
        return device_pb2.ReleasePreparedModelReply()

    def _model(self, session: Session, message: types_pb2.Model) -> Model:
        pools = [self._constant(session, token) for token in message.pools]
        session.models.check_constants(sum(pool.size for pool in pools))
        return model_from_wire(message, pools, self._extensions)

    def _crumb(self, model: Model, message: types_pb2.Model) -> tuple[Crumb, bytes]:
        """Records a valid model; returns its crumb, and the model as a message without tokens."""
        del message.pools[:]
        graphs = message.SerializeToString()
        return self._watch.crumb(model, graphs), graphs

    def _artifact_memory(self, session: Session, token: bytes) -> Memory:
        """Returns the memory of a token, see `named_tokens`; its content is checked later."""
        return self._constant(session, token) if token else HostMemory(b"")

    def _constant(self, session: Session, token: bytes) -> Memory:
        memory = session.memories.take(token)
        if is_writable(memory):
            raise BadData("a memory of the model can still be written; constants must be sealed")
        return memory


def _improvement(prepared_model: PreparedModel) -> threading.Event | None:
    """Returns what is set once a new prepared model runs faster code; None if it stays as it is.

    Those who share the model share this as well, so that it is asked once.
    """
    call_when_improved = getattr(prepared_model, "call_when_improved", None)
    if call_when_improved is None:
        return None
    improved = threading.Event()
    return improved if call_when_improved(lambda _: improved.set()) else None
