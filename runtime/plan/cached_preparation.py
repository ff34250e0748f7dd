"""Prepares a model with the cache: loads an entry, or compiles the model and stores it."""

import contextlib
import logging
import time
from collections.abc import Iterator

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.cache.entry import Origin, describe
from neurald.hal.cache.key import KeyParts, constants_question
from neurald.hal.cache.store import Cache, Miss
from neurald.hal.cache.variants import VariantCache
from neurald.hal.device import CacheRecord, Device, PreparedModel, PrepareOptions
from neurald.hal.errors import (
    DRIVER_FAULTS,
    DeadObject,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
    Unreachable,
)
from neurald.hal.model.model import Model
from neurald.hal.records import replace
from neurald.hal.wording import text_of
from neurald.runtime.devices.driver_faults import convert_driver_faults
from neurald.runtime.plan.compiling import (
    checked_model,
    compiled,
    has_known_inputs,
    milliseconds_since,
    warn_once,
)
from neurald.runtime.plan.prepared_step import (
    DEFERRED_COMPILATION,
    CacheOutcome,
    PreparationReport,
    PreparedStep,
)

logger = logging.getLogger(__name__)

_NO_ARTIFACT = "the device returned no artifact"
#: Minimum share of the time until the deadline that is reserved for compiling.
_MIN_COMPILE_SHARE = 0.5


class CachedPreparation:
    """Prepares one model on one device with a cache.

    Args:
        cache: the cache that is read and written.
        device: the device that prepares the model.
        model: the model.
        parts: the parts of the key of its entry.
        options: the options for the device, to which the key is added.
        lock_wait_s: maximum time to wait for another process that compiles the same model.
        question: identifies the file state that the key's constants were read from (see
            `constants_question`); None if the model's constants are sealed.
        is_background: see `Preparer`.

    Attributes:
        cache: the cache.
    """

    def __init__(
        self,
        cache: Cache,
        device: Device,
        model: Model,
        parts: KeyParts,
        options: PrepareOptions,
        lock_wait_s: float,
        question: bytes | None = None,
        *,
        is_background: bool = False,
    ) -> None:
        self._is_background = is_background
        self.cache = cache
        self._device = device
        self._version = device.version
        self._model = model
        self._lock_wait_s = lock_wait_s
        self._question = question
        self._parts = parts
        self._key = parts.key()
        self._options = replace(options, cache_key=self._key)
        #: Why the first look-up found nothing, if it said so.
        self._reason = ""

    def run(self, started: float) -> PreparedStep:
        """Loads the prepared model from the cache, or compiles and stores it.

        Args:
            started: when it was requested, on the clock of `time.perf_counter()`.
        """
        loaded = self.load(started)
        if isinstance(loaded, PreparedStep):
            return loaded
        with self._lock():
            # The previous holder of the lock may have stored the entry.
            reloaded = self.load(started)
            if isinstance(reloaded, PreparedStep):
                return reloaded
            return self._compile(started, self._reason)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        wait_s = self._lock_wait_s
        if self._options.deadline_s is not None:
            left_s = self._options.deadline_s - time.monotonic()
            wait_s = min(wait_s, left_s * (1 - _MIN_COMPILE_SHARE))
        # After the wait the model is compiled even without the lock; at worst it is compiled twice.
        cancellation, is_background = self._options.cancellation, self._is_background
        with self.cache.lock(self._key, wait_s, cancellation, is_background=is_background):
            yield

    def load(self, started: float) -> PreparedStep | Miss:
        """Loads the prepared model from the cache; see `run`."""
        loaded = self._load(started)
        if isinstance(loaded, PreparedStep):
            return loaded
        # An entry that cannot be used is removed, and missing afterwards.
        self._reason = self._reason or loaded.reason
        return Miss(reason=self._reason)

    def _load(self, started: float) -> PreparedStep | Miss:
        entry = self.cache.load(self._key, self._device.cache_files_needed, is_shared=self._device.is_remote)
        if isinstance(entry, Miss):
            return entry
        try:
            prepared_model = checked_model(
                self._device.prepare_model_from_cache(entry.artifact, self._options), self._device
            )
        except (
            MissedDeadlineTransient,
            MissedDeadlinePersistent,
            ResourceExhaustedTransient,  # compiling needs even more
            ResourceExhaustedPersistent,
            Unreachable,
        ):
            raise
        except DRIVER_FAULTS as error:
            # This includes exceptions that no driver should raise: an unusable artifact must have
            # no effect other than a recompilation.
            why = text_of(error)
            logger.info("%s cannot load its cached artifact: %s", self._device.name, why)
            self.cache.remove(self._key.hex())
            if isinstance(error, DeadObject) and self._device.is_remote:
                raise  # the daemon is gone, so it cannot compile either
            return Miss(reason=f"the device cannot load its cached artifact: {why}")
        self._store_when_improved(prepared_model, entry.manifest.origin.compile_ms)
        return self._prepared(
            prepared_model,
            started,
            CacheOutcome.HIT,
            compile_ms=entry.manifest.origin.compile_ms,
            is_stored=True,
        )

    def defer(self, started: float) -> PreparedStep:
        """Prepares a model whose executions compile it in the background, for their shapes.

        They use what is kept for these shapes, or else a first tier until it is compiled.

        Args:
            started: when it was requested, on the clock of `time.perf_counter()`.
        """
        self._is_background = True
        return self._compile(started, DEFERRED_COMPILATION)

    def leave(self) -> None:
        """Leaves the model to another process; see `Preparer.leave`."""
        from neurald.hal.compiling.job import Keep
        from neurald.hal.compiling.separate_compiler import leave_to_process

        leave_to_process(
            self._device.name,
            self._device,
            self._model,
            Keep(parts=self._parts, model=describe(self._model)),
            self.cache.location,
            lambda: not self._reason_not_storable(),
        )

    def _reason_not_storable(self) -> str:
        """Returns why nothing may be stored under this key; empty if storing is allowed."""
        if self._device.version != self._version:
            return f"the device was updated in the meantime, from version {self._version}"
        if self._question is not None and self._question != constants_question(self._model):
            return "the model's file was modified in the meantime"
        return ""

    def _compile(self, started: float, reason: str) -> PreparedStep:
        variants = self._variants()
        # The variants object cannot be passed to another process.
        options = self._options if self._device.is_remote else replace(self._options, variants=variants)
        compiling = time.perf_counter()
        prepared_model = compiled(self._device, self._model, options, is_background=self._is_background)
        compile_ms = milliseconds_since(compiling)
        record: CacheRecord | None = variants.record or getattr(prepared_model, "cache_record", None)
        if record is not None and record.was_there:
            return self._prepared(
                prepared_model,
                started,
                CacheOutcome.HIT,
                compile_ms=record.compile_ms,
                is_stored=True,
                key=record.key,
            )
        # The reason must be looked up before the new entry exists, because that would match.
        reason = reason or self.cache.why_missing(self._parts)
        text = "%s compiled a step, which was not in the cache: %s"
        note_event(CountedEvent.CACHE_MISS, _kind_of(reason), logger.info, text, self._device.name, reason)
        failure = (
            ""
            if record is not None
            else self._reason_not_storable() or self._store(prepared_model, compile_ms)
        )
        if record is None and not failure:
            self._store_when_improved(prepared_model, compile_ms)
        if failure == _NO_ARTIFACT and not has_known_inputs(self._model):
            reason = DEFERRED_COMPILATION
        elif failure:
            reason = f"{reason}; not stored: {failure}"
        return self._prepared(
            prepared_model,
            started,
            CacheOutcome.MISS,
            reason=reason,
            compile_ms=compile_ms,
            is_stored=not failure,
            key="" if record is None else record.key,
            variants=None if reason != DEFERRED_COMPILATION or self._device.is_remote else variants,
        )

    def _variants(self) -> VariantCache:
        return VariantCache(
            self.cache,
            lambda: self._parts,
            self._device.cache_files_needed,
            lambda: describe(self._model),
            self._reason_not_storable,
            warn_once,
        )

    def _store(self, prepared_model: PreparedModel, compile_ms: float) -> str:
        """Stores the compiled artifact; returns why it was not stored, or ""."""
        needed = self._device.cache_files_needed
        try:
            artifact = prepared_model.artifact()
            if artifact is None:
                return _NO_ARTIFACT
            counts = len(artifact.model), len(artifact.data)
            if counts != (needed.model, needed.data):
                return (
                    f"the device returned {counts[0]} model and {counts[1]} data files; "
                    f"it announced {needed.model} and {needed.data}"
                )
            origin = Origin(model=describe(self._model), compile_ms=compile_ms, created_s=time.time())
            self.cache.store(self._parts, artifact, origin)
        except DRIVER_FAULTS as error:
            # The model is ready, so a problem of a driver or a disk must not fail the preparation.
            reason = text_of(error)
            warn_once(f"a model compiled by {self._device.name} cannot be cached: {reason}")
            return reason
        return ""

    def _store_when_improved(self, prepared_model: PreparedModel, compile_ms: float) -> None:
        """Stores the artifact again once the model runs faster code; see `ImprovesLater`."""
        call_when_improved = getattr(prepared_model, "call_when_improved", None)
        if call_when_improved is None:
            return

        def store(improved: PreparedModel) -> None:
            if not self._reason_not_storable():
                self._store(improved, compile_ms)

        with convert_driver_faults(self._device.name):
            call_when_improved(store)

    def _prepared(
        self,
        prepared_model: PreparedModel,
        started: float,
        outcome: CacheOutcome,
        *,
        reason: str = "",
        compile_ms: float,
        is_stored: bool,
        key: str = "",
        variants: VariantCache | None = None,
    ) -> PreparedStep:
        report = PreparationReport(
            device=self._device.name,
            milliseconds=milliseconds_since(started),
            cache=outcome,
            reason=reason,
            compile_ms=compile_ms,
            key=key or self._key.hex(),
            is_stored=is_stored,
            variants=variants,
        )
        return PreparedStep(prepared_model=prepared_model, report=report)


def _kind_of(reason: str) -> str:
    """Returns a reason for a miss without names, versions and consequences."""
    return reason.partition(" from ")[0].partition(":")[0].partition(", so ")[0]
