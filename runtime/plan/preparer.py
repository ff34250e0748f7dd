"""Makes devices prepare models, from the cache if possible, and reports the outcome.

The cache never makes a preparation fail: after any problem with it the device compiles. The device
compiles exactly the content that the key was computed from, since both read constants that were
sealed before. Constants of a file that has not changed since they were last read are neither sealed
nor read again. Artifacts compiled from them are stored only if the file is still unchanged
afterwards.
"""

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from neurald.hal.cache.key import KeyParts, constants_question, graphs_digest, key_parts
from neurald.hal.cache.store import Cache, default_directory
from neurald.hal.cache.variants import SharedCache
from neurald.hal.device import Device, PreparedModel, PrepareOptions
from neurald.hal.errors import BadData, BadState, Error
from neurald.hal.execution.first_tier import first_tier
from neurald.hal.model.constants import seal_constants
from neurald.hal.model.model import Model
from neurald.hal.model.types import Priority
from neurald.hal.process.memory.gc_pause import paused_gc
from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.progress import progress_to
from neurald.runtime.devices.driver_faults import cache_files_needed, checked, convert_driver_faults
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.plan.cached_preparation import CachedPreparation
from neurald.runtime.plan.compiling import (
    checked_model,
    compiled,
    compiles_in_process_of_its_own,
    has_known_inputs,
    milliseconds_since,
    warn_once,
)
from neurald.runtime.plan.prepared_step import (
    NOTHING_TO_CACHE,
    CacheOutcome,
    PreparationReport,
    PreparedStep,
)
from neurald.runtime.plan.progress import ProgressMonitor
from neurald.runtime.plan.startup import Startup

if TYPE_CHECKING:
    from neurald.runtime.plan.provided_plan import ProvidedPlan  # few compilations have one

logger = logging.getLogger(__name__)

#: Maximum time to wait for another process that compiles the same model, in seconds.
MAX_LOCK_WAIT_S = 120.0


class Caching(Struct, frozen=True, kw_only=True):
    """The place where compiled artifacts are stored.

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
            warn_once(f"compiled models are not cached: {error}")
            return None


class _Unread(Struct, frozen=True, kw_only=True):
    """A model with constants of files that have not been read, for which the cache has nothing.

    Attributes:
        cache: the cache.
        question: see `constants_question`.
    """

    cache: Cache
    question: bytes


class Preparer:
    """Prepares the steps of one compilation. Thread-safe.

    Args:
        options: the options for every step.
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
        provided: "ProvidedPlan | None" = None,
    ) -> None:
        self._options = options
        self._caching = caching
        self._lock_wait_s = lock_wait_s
        self._startup = startup
        self._is_background = is_background
        self._monitor = monitor
        self._provided = provided
        #: What `load` has not found in the cache, with its device and model.
        self._missed: tuple[Device, Model, CachedPreparation | _Unread] | None = None

    @property
    def priority(self) -> Priority:
        """The priority of executions of the prepared models."""
        return self._options.priority

    def without_deadline(self) -> "Preparer":
        """Returns a preparer without a deadline, for steps that are prepared again later."""
        return Preparer(replace(self._options, deadline_s=None), self._caching, lock_wait_s=self._lock_wait_s)

    def at_once(self) -> "Preparer":
        """Returns a preparer that takes the first tier of what is not in the cache."""
        return Preparer(self._options, self._caching, lock_wait_s=self._lock_wait_s, startup=Startup.INSTANT)

    def without_cache(self) -> "Preparer":
        """Returns a preparer that keeps nothing on disk, and has no deadline."""
        return Preparer(replace(self._options, deadline_s=None), None, lock_wait_s=self._lock_wait_s)

    def in_background(
        self, cancellation: Cancellation, first_tier: PreparedModel | None = None
    ) -> "Preparer":
        """Returns a preparer for work beside executions, which have precedence.

        Args:
            cancellation: ends the preparations.
            first_tier: see `PrepareOptions.first_tier`.
        """
        return Preparer(
            replace(self._options, deadline_s=None, cancellation=cancellation, first_tier=first_tier),
            self._caching,
            lock_wait_s=self._lock_wait_s,
            is_background=True,
            monitor=self._monitor,
        )

    @property
    def keeps(self) -> bool:
        """True if what is compiled is kept for later processes."""
        return self._caching is not None and not self._options.attributes

    def leave(self, device: Device, model: Model) -> None:
        """Leaves a model to another process, which compiles it when this process has exited.

        Args:
            device: compiles in a process of its own.
            model: the model of a step, with known shapes of the inputs.

        Raises:
            Error: no process takes it.
        """
        preparation = self._preparation(device, model)
        if not isinstance(preparation, str):
            preparation.leave()

    def load(self, device: Device, model: Model) -> PreparedStep | None:
        """Returns what the cache has for a model; None if it has nothing that can be used.

        Constants that are not known from earlier are not read, so an entry for them is not found.
        For a model of open shapes, executions ask the cache.
        """
        started = time.perf_counter()
        preparation = self._look(device, model)
        if isinstance(preparation, str):
            return None
        if isinstance(preparation, CachedPreparation):
            if self._is_deferred(device, model):
                try:
                    return preparation.defer(started)
                except BadData:
                    return None  # `prepare` says why.
            loaded = preparation.load(started)
            if isinstance(loaded, PreparedStep):
                return loaded
        self._missed = device, model, preparation
        return None

    def prepare(self, device: Device, model: Model, step: int = 0, steps: int = 1) -> PreparedStep:
        """Makes `device` prepare `model`.

        Args:
            device: the device.
            model: the model of a step.
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

    def _from_plan(self, provided: "ProvidedPlan", device: Device, model: Model) -> PreparedStep | str:
        """Returns what a plan has for a step, or the reason why it has nothing."""
        from neurald.runtime.plan.provided_plan import PLAN_TOKEN

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
                prepared_model = checked_model(
                    device.prepare_model_from_cache(found.artifact, options), device
                )
        except (Error, ValueError, TypeError) as error:
            return f"the device cannot load the artifact of the plan: {error}"
        return PreparedStep(
            prepared_model=prepared_model,
            report=PreparationReport(
                device=device.name,
                milliseconds=milliseconds_since(started),
                cache=CacheOutcome.HIT,
                reason="",
                compile_ms=found.compile_ms,
                key=parts.key().hex(),
            ),
        )

    def _prepare_here(self, device: Device, model: Model, step: int, steps: int) -> PreparedStep:
        """Makes `device` prepare `model`, without a plan; see `prepare`."""
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
        if device is not cpu:
            from neurald.hal.extension_support import refused_operations  # The CPU device needs none.

            if not has_known_inputs(model) or refused_operations(model, cpu):
                return None
        preparation = self._look(device, model)
        reason = preparation if isinstance(preparation, str) else "first use"
        if isinstance(preparation, CachedPreparation):
            if self._is_deferred(device, model):
                return preparation.defer(started)
            loaded = preparation.load(started)
            if isinstance(loaded, PreparedStep):
                return loaded
            reason = loaded.reason or reason
        # The objects that are created last, so that collections would find nothing.
        with paused_gc(), convert_driver_faults(device.name):
            provider = device if device is cpu else cpu
            cache = None if isinstance(preparation, str) else preparation.cache
            options = replace(self._options, attributes=(), shared=self._shared(provider, cache))
            prepared_model = first_tier(provider, model, options)
        if prepared_model is None:
            return None
        return PreparedStep(
            prepared_model=prepared_model,
            report=PreparationReport(
                device=device.name,
                milliseconds=milliseconds_since(started),
                cache=CacheOutcome.MISS if isinstance(preparation, CachedPreparation) else CacheOutcome.OFF,
                reason=f"{reason}; this is the first tier",
            ),
            is_first_tier=True,
        )

    def _is_deferred(self, device: Device, model: Model) -> bool:
        """Returns True if executions compile a model in the background, for their shapes."""
        return (
            self._startup is Startup.INSTANT
            and not has_known_inputs(model)
            and compiles_in_process_of_its_own(device)
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
            return SharedCache(cache or Cache(self._caching.directory), device, warn_once)
        except Error as error:
            warn_once(f"kernels are not cached: {error}")
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
            prepared_model = compiled(device, model, self._options, is_background=self._is_background)
            milliseconds = milliseconds_since(started)
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
        """Makes devices prepare models; different devices work concurrently.

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
        # This thread prepares the models of one device, preferably of one in this process, and of
        # those for which there is no other thread.
        names = sorted(by_device, key=lambda name: wanted[by_device[name][0]][0].is_remote)
        own, threads = names[:1], []
        for name in names[1:]:
            thread = CheckedThread(
                target=run, args=(by_device[name],), name=f"neurald-prepare-{name}", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                own.append(name)
            else:
                threads.append(thread)
        for name in own:
            run(by_device[name])
        for thread in threads:
            thread.join()
        return outcomes

    def _preparation(self, device: Device, model: Model) -> CachedPreparation | str:
        """Returns the preparation with a cache, or the reason why no cache is used.

        Args:
            device, model: see `prepare`.
        """
        found = self._look(device, model)
        if not isinstance(found, _Unread):
            return found
        # The cache has nothing for constants that have not been read yet.
        self._start_compiler(device, model)
        try:
            sealed = seal_constants(model)
        except Error as error:
            return _no_cache(error)
        parts = self._key_parts(device, sealed)
        if found.question == constants_question(model):
            found.cache.constants.remember(found.question, parts.constants)
        return self._cached(found.cache, device, sealed, parts)

    def _look(self, device: Device, model: Model) -> CachedPreparation | _Unread | str:
        """Returns the preparation with a cache, but reads no files; see `_preparation`.

        Args:
            device, model: see `prepare`.
        """
        missed, self._missed = self._missed, None
        if missed is not None and missed[0] is device and missed[1] is model:
            return missed[2]
        if not cache_files_needed(device):
            return NOTHING_TO_CACHE
        if self._caching is None:
            return "caching is off"
        try:
            cache = Cache(self._caching.directory)
            question = constants_question(model)
            known = None if question is None else cache.constants.recall(question)
            if known is None and question is not None:
                return _Unread(cache=cache, question=question)
            sealed = model if known is not None else seal_constants(model)
        except Error as error:
            return _no_cache(error)
        parts = self._key_parts(device, sealed, known)
        if known is not None:
            return self._cached(cache, device, model, parts, question)
        return self._cached(cache, device, sealed, parts)

    def _key_parts(self, device: Device, model: Model, known: str | None = None) -> KeyParts:
        """Returns the parts of the key of a model, whose constants are sealed or known."""
        token = b"" if self._caching is None else self._caching.token
        with convert_driver_faults(device.name):
            checked(device.version, str, device.name, "version")
            return key_parts(model, device, self._options, token, known)

    def _start_compiler(self, device: Device, model: Model) -> None:
        """Starts the process that will compile the model, while its constants are read."""
        if compiles_in_process_of_its_own(device) and has_known_inputs(model):
            from neurald.hal.compiling.separate_compiler import start_ahead

            start_ahead(device.name, device, is_awaited=not self._is_background)

    def _cached(
        self, cache: Cache, device: Device, model: Model, parts: KeyParts, question: bytes | None = None
    ) -> "CachedPreparation":
        return CachedPreparation(
            cache,
            device,
            model,
            parts,
            replace(self._options, shared=self._shared(device, cache)),
            self._lock_wait_s,
            question,
            is_background=self._is_background,
        )


def _no_cache(error: Error) -> str:
    """Reports an error of the cache, once; returns the reason why no cache is used."""
    warn_once(f"compiled models are not cached: {error}")
    return str(error)
