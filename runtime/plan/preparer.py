"""Has devices prepare models, from the cache if possible, and reports the outcome.

The cache never makes a preparation fail: after any problem with it the device compiles. The device
compiles exactly the content that the key was computed from, since both read constants that were
sealed before. Constants of a file that has not changed since they were last read are neither sealed
nor read again. Artifacts compiled from them are stored only if the file is still unchanged
afterwards.
"""

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from msgspec import Struct

from neurald.hal.accounting.events import CountedEvent, count_event
from neurald.hal.cache.entry import Origin, describe
from neurald.hal.cache.key import KeyParts, constants_question, graphs_digest, key_parts
from neurald.hal.cache.store import Cache, Miss, default_directory
from neurald.hal.cache.variants import SharedCache, VariantCache
from neurald.hal.compiling.contract import compiles_apart
from neurald.hal.device import CacheFilesNeeded, CacheRecord, Device, PreparedModel, PrepareOptions
from neurald.hal.errors import (
    BadState,
    DeadObject,
    Error,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
    Unreachable,
)
from neurald.hal.execution.first_tier import first_tier
from neurald.hal.extension_support import refused_operations
from neurald.hal.model.constants import seal_constants
from neurald.hal.model.types import Model
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.progress import progress_to
from neurald.runtime.devices.discovery import cpu_device
from neurald.runtime.devices.driver_faults import checked, checked_executable, convert_driver_faults
from neurald.runtime.plan.prepared_step import (
    DEFERRED_COMPILATION,
    CacheOutcome,
    PreparationReport,
    PreparedStep,
)
from neurald.runtime.plan.progress import ProgressMonitor
from neurald.runtime.plan.provided_plan import PLAN_TOKEN, ProvidedPlan
from neurald.runtime.plan.startup import Startup

logger = logging.getLogger(__name__)

#: Maximum time to wait for another process that compiles the same model, in seconds.
MAX_LOCK_WAIT_S = 120.0
_NO_ARTIFACT = "the device returned no artifact"
#: Minimum share of the time until the deadline that is reserved for compiling.
_MIN_COMPILE_SHARE = 0.5


class Caching(Struct, frozen=True, kw_only=True):
    """Where compiled artifacts are stored.

    Attributes:
        directory: the cache directory.
        token: the application's token for the model, of 32 bytes; empty for none.
    """

    directory: Path
    token: bytes = b""

    @classmethod
    def by_default(cls) -> Self | None:
        """Returns the user's own cache; logs a warning and returns None if it has no directory."""
        try:
            return cls(directory=default_directory())
        except BadState as error:
            _warn_once(f"compiled models are not cached: {error}")
            return None


class Preparer:
    """Prepares the steps of one compilation. Thread-safe.

    Args:
        options: for every step.
        caching: where artifacts are stored; None to disable caching.
        lock_wait_s: maximum time to wait for another process that compiles the same model.
        startup: INSTANT to return first tiers, where there are any and the cache has nothing.
        is_background: True for work beside executions, which have precedence.
        monitor: shows preparations that take long; None to show nothing.
        provided: a plan with artifacts, which come before those of the cache.
    """

    def __init__(
        self,
        options: PrepareOptions,
        caching: Caching | None = None,
        *,
        lock_wait_s: float = MAX_LOCK_WAIT_S,
        startup: Startup = Startup.OPTIMIZED,
        is_background: bool = False,
        monitor: ProgressMonitor | None = None,
        provided: ProvidedPlan | None = None,
    ) -> None:
        self._options = options
        self._caching = caching
        self._lock_wait_s = lock_wait_s
        self._startup = startup
        self._is_background = is_background
        self._monitor = monitor
        self._provided = provided

    def without_deadline(self) -> "Preparer":
        """Returns a preparer without a deadline, for steps that are prepared again later."""
        return Preparer(replace(self._options, deadline_s=None), self._caching, lock_wait_s=self._lock_wait_s)

    def at_once(self) -> "Preparer":
        """Returns a preparer that takes the first tier of what is not in the cache."""
        return Preparer(self._options, self._caching, lock_wait_s=self._lock_wait_s, startup=Startup.INSTANT)

    def without_cache(self) -> "Preparer":
        """Returns a preparer that keeps nothing on disk, and has no deadline."""
        return Preparer(replace(self._options, deadline_s=None), None, lock_wait_s=self._lock_wait_s)

    def in_background(self, cancellation: Cancellation) -> "Preparer":
        """Returns a preparer for work beside executions, which have precedence.

        Args:
            cancellation: ends the preparations.
        """
        return Preparer(
            replace(self._options, deadline_s=None, cancellation=cancellation),
            self._caching,
            lock_wait_s=self._lock_wait_s,
            is_background=True,
            monitor=self._monitor,
        )

    def prepare(self, device: Device, model: Model, step: int = 0, steps: int = 1) -> PreparedStep:
        """Has `device` prepare `model`.

        Args:
            device: the device.
            model: of a step.
            step, steps: position of the step and number of steps, for messages.

        Raises:
            Error: see `Device.prepare_model`.
        """
        unfit = ""
        if self._provided is not None:
            found = self._from_plan(self._provided, device, model)
            if isinstance(found, PreparedStep):
                return found
            unfit = found
        prepared = self._prepare_here(device, model, step, steps)
        if unfit:
            reason = f"{unfit}; {prepared.report.reason}" if prepared.report.reason else unfit
            prepared = replace(prepared, report=replace(prepared.report, reason=reason))
        return prepared

    def _from_plan(self, provided: ProvidedPlan, device: Device, model: Model) -> PreparedStep | str:
        """Returns what a plan has for a step, or the reason why it has nothing."""
        started = time.perf_counter()
        constants = provided.constants(graphs_digest(model))
        if constants is None:
            return "the plan has no such step"
        try:
            with convert_driver_faults(device.name):
                parts = key_parts(model, device, self._options, PLAN_TOKEN, constants)
                found = provided.step(parts)
                if isinstance(found, str):
                    return found
                options = replace(self._options, cache_key=parts.key(), shared=self._shared(device))
                prepared_model = _checked(device.prepare_model_from_cache(found.artifact, options), device)
        except (Error, ValueError, TypeError) as error:
            return f"the device cannot load the artifact of the plan: {error}"
        return PreparedStep(
            prepared_model=prepared_model,
            report=PreparationReport(
                device=device.name,
                milliseconds=_since(started),
                cache=CacheOutcome.HIT,
                reason="",
                compile_ms=found.compile_ms,
                key=parts.key().hex(),
            ),
        )

    def _prepare_here(self, device: Device, model: Model, step: int, steps: int) -> PreparedStep:
        """Has `device` prepare `model`, without a plan; see `prepare`."""
        if self._startup is Startup.INSTANT:
            first = self._first_tier(device, model)
            if first is not None:
                return first
        if self._monitor is None:
            return self._prepare(device, model)
        with self._monitor.of_step(step, steps, device.name) as listener, progress_to(listener):
            return self._prepare(device, model)

    def _first_tier(self, device: Device, model: Model) -> PreparedStep | None:
        """Returns the device's prepared model from the cache, or else a first tier if there is one.

        Constants that are not known from earlier are not read, so an entry for them is not found.
        """
        started = time.perf_counter()
        cpu = cpu_device()
        if device is not cpu and (not has_known_inputs(model) or refused_operations(model, cpu)):
            return None
        preparation = self._preparation(device, model, reads_files=False)
        reason = preparation if isinstance(preparation, str) else "first use"
        if isinstance(preparation, _CachedPreparation):
            loaded = preparation.load(started)
            if isinstance(loaded, PreparedStep):
                return loaded
            reason = loaded.reason or reason
        with convert_driver_faults(device.name):
            provider = device if device is cpu else cpu
            cache = preparation.cache if isinstance(preparation, _CachedPreparation) else None
            options = replace(self._options, attributes=(), shared=self._shared(provider, cache))
            prepared_model = first_tier(provider, model, options)
        if prepared_model is None:
            return None
        return PreparedStep(
            prepared_model=prepared_model,
            report=PreparationReport(
                device=device.name,
                milliseconds=_since(started),
                cache=CacheOutcome.OFF if isinstance(preparation, str) else CacheOutcome.MISS,
                reason=f"{reason}; this is the first tier",
            ),
            is_first_tier=True,
        )

    def _shared(self, device: Device, cache: Cache | None = None) -> SharedCache | None:
        """Returns the cache of what the models of a device share; None for one of another process.

        Args:
            device: the device.
            cache: the cache of this preparer, if it is there already.
        """
        if self._caching is None or device.is_remote or not device.cache_files_needed:
            return None
        try:
            return SharedCache(cache or Cache(self._caching.directory), device, _warn_once)
        except Error as error:
            _warn_once(f"kernels are not cached: {error}")
            return None

    def _prepare(self, device: Device, model: Model) -> PreparedStep:
        started = time.perf_counter()
        # Reconnect first: properties that are part of the key, such as the version, may have
        # changed.
        reconnect = getattr(device, "reconnect", None)
        if reconnect is not None:
            reconnect(self._options.deadline_s)
        preparation = self._preparation(device, model)
        if isinstance(preparation, str):
            prepared_model = _compiled(device, model, self._options, is_background=self._is_background)
            milliseconds = _since(started)
            prepared = PreparedStep(
                prepared_model=prepared_model,
                report=PreparationReport(
                    device=device.name,
                    milliseconds=milliseconds,
                    cache=CacheOutcome.OFF,
                    reason=preparation,
                    compile_ms=milliseconds,
                ),
            )
        else:
            prepared = preparation.run(started)
        logger.debug("%s", prepared.report)
        return prepared

    def prepare_all(
        self, wanted: Sequence[tuple[Device, Model]]
    ) -> list[PreparedStep | BaseException | None]:
        """Has devices prepare models; different devices work concurrently.

        The models of one device are prepared one after another, in order. After a failure no
        further preparation starts.

        Returns:
            For each model, the prepared step or the exception that was raised; None if its
                preparation was not started.
        """
        outcomes: list[PreparedStep | BaseException | None] = [None] * len(wanted)
        has_failed = threading.Event()

        def run(numbers: Sequence[int]) -> None:
            for number in numbers:
                if has_failed.is_set():
                    return
                try:
                    outcomes[number] = self.prepare(*wanted[number], number, len(wanted))
                except BaseException as error:
                    outcomes[number] = error
                    has_failed.set()

        by_device: dict[str, list[int]] = {}
        for number, (device, _) in enumerate(wanted):
            by_device.setdefault(device.name, []).append(number)
        # This thread prepares the models of one device, preferably of one in this process.
        names = sorted(by_device, key=lambda name: wanted[by_device[name][0]][0].is_remote)
        threads = [
            threading.Thread(target=run, args=(by_device[name],), name=f"neurald-prepare-{name}", daemon=True)
            for name in names[1:]
        ]
        for thread in threads:
            thread.start()
        run(by_device[names[0]] if names else ())
        for thread in threads:
            thread.join()
        return outcomes

    def _preparation(
        self, device: Device, model: Model, *, reads_files: bool = True
    ) -> "_CachedPreparation | str":
        """Returns the preparation with a cache, or the reason why no cache is used.

        Args:
            device, model: see `prepare`.
            reads_files: False to use no cache for constants of files that are not known from earlier.
        """
        with convert_driver_faults(device.name):
            needed = checked(device.cache_files_needed, CacheFilesNeeded, device.name, "cache_files_needed")
        if not needed:
            return "the device needs no cache files"
        if self._caching is None:
            return "caching is off"
        token = self._caching.token
        try:
            cache = Cache(self._caching.directory)
            question = constants_question(model)
            known = None if question is None else cache.constants.recall(question)
            if known is None and question is not None:
                if not reads_files:
                    return "first use"
                # The cache has nothing for constants that nobody has read yet.
                self._start_compiler(device, model)
            sealed = model if known is not None else seal_constants(model)
        except Error as error:
            _warn_once(f"compiled models are not cached: {error}")
            return str(error)
        with convert_driver_faults(device.name):
            checked(device.version, str, device.name, "version")
            parts = key_parts(sealed, device, self._options, token, known)
        if known is not None:
            return self._cached(cache, device, model, parts, question)
        if question is not None and question == constants_question(model):
            cache.constants.remember(question, parts.constants)
        return self._cached(cache, device, sealed, parts)

    def _start_compiler(self, device: Device, model: Model) -> None:
        """Starts the process that will compile the model, while its constants are read."""
        if _compiles_in_process_of_its_own(device) and has_known_inputs(model):
            from neurald.hal.compiling.background import start_ahead

            start_ahead(device.name, device, is_awaited=not self._is_background)

    def _cached(
        self, cache: Cache, device: Device, model: Model, parts: KeyParts, question: bytes | None = None
    ) -> "_CachedPreparation":
        return _CachedPreparation(
            cache,
            device,
            model,
            parts,
            replace(self._options, shared=self._shared(device, cache)),
            self._lock_wait_s,
            question,
            is_background=self._is_background,
        )


def _kind_of(reason: str) -> str:
    """Returns a reason for a miss without names and versions."""
    return reason.partition(" from ")[0].partition(":")[0]


class _CachedPreparation:
    """Prepares one model on one device with a cache.

    Args:
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
            return self._compile(started, loaded.reason or reloaded.reason)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        wait_s = self._lock_wait_s
        if self._options.deadline_s is not None:
            left_s = self._options.deadline_s - time.monotonic()
            wait_s = min(wait_s, left_s * (1 - _MIN_COMPILE_SHARE))
        # After the wait the model is compiled even without the lock; at worst it is compiled twice.
        with self.cache.lock(self._key, wait_s, self._options.cancellation):
            yield

    def load(self, started: float) -> PreparedStep | Miss:
        """Loads the prepared model from the cache; see `run`."""
        entry = self.cache.load(self._key, self._device.cache_files_needed)
        if isinstance(entry, Miss):
            return entry
        try:
            prepared_model = _checked(
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
        except Exception as error:
            # This includes exceptions that no driver should raise: an unusable artifact must have
            # no effect other than a recompilation.
            logger.info("%s cannot load its cached artifact: %s", self._device.name, error)
            self.cache.remove(self._key.hex())
            if isinstance(error, DeadObject) and self._device.is_remote:
                raise  # the daemon is gone, so it cannot compile either
            return Miss(reason=f"the device cannot load its cached artifact: {error}")
        return self._prepared(
            prepared_model,
            started,
            CacheOutcome.HIT,
            compile_ms=entry.manifest.origin.compile_ms,
            is_stored=True,
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
        prepared_model = _compiled(self._device, self._model, options, is_background=self._is_background)
        compile_ms = _since(compiling)
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
        count_event(CountedEvent.CACHE_MISS, _kind_of(reason))
        logger.info("%s compiled a step, which was not in the cache: %s", self._device.name, reason)
        failure = (
            ""
            if record is not None
            else self._reason_not_storable() or self._store(prepared_model, compile_ms)
        )
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
            describe(self._model),
            self._reason_not_storable,
            _warn_once,
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
        except Exception as error:
            # The model is ready, so a problem of a driver or a disk must not fail the preparation.
            _warn_once(f"a model compiled by {self._device.name} cannot be cached: {error}")
            return str(error)
        return ""

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
            milliseconds=_since(started),
            cache=outcome,
            reason=reason,
            compile_ms=compile_ms,
            key=key or self._key.hex(),
            is_stored=is_stored,
            variants=variants,
        )
        return PreparedStep(prepared_model=prepared_model, report=report)


def _compiled(device: Device, model: Model, options: PrepareOptions, *, is_background: bool) -> PreparedModel:
    if _compiles_in_process_of_its_own(device):
        from neurald.hal.compiling.background import BackgroundCompiler  # Not needed for a warm start.

        compiler = BackgroundCompiler(
            device.name, device, model, options.shared, is_awaited=not is_background
        )
        options = replace(options, compiler=compiler)
    with convert_driver_faults(device.name):
        return _checked(device.prepare_model(model, options), device)


def _compiles_in_process_of_its_own(device: Device) -> bool:
    # Without the path of an interpreter, as in an application that embeds one, no process can start.
    return device is cpu_device() and compiles_apart(device) and bool(sys.executable)


def _checked(answer: PreparedModel, device: Device) -> PreparedModel:
    return checked_executable(answer, "PreparedModel", device.name, "preparing")


def has_known_inputs(model: Model) -> bool:
    """Returns True if the shapes of all inputs are known before an execution."""
    return all(model.main.operands[index].is_fully_specified for index in model.main.inputs)


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


_warned: set[str] = set()
_warned_lock = forkable_lock()


def _warn_once(message: str) -> None:
    """Logs a warning once per process."""
    with _warned_lock:
        if message in _warned:
            return
        _warned.add(message)
    logger.warning("%s", message)
