"""CompilationBuilder: collects and checks the settings of a compilation, and begins it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neurald.hal.api_arguments import file_path, instance, integer, member, number, shown, time_limit
from neurald.hal.device import MAX_THREADS, Device
from neurald.hal.errors import BadData, BadState, UnexpectedNull, WrongType
from neurald.hal.model.extension import AttributeUse
from neurald.hal.model.model import Model
from neurald.hal.model.types import Preference, Priority
from neurald.hal.process.fork import notice_fork
from neurald.hal.process.threads.preparing import PREPARING
from neurald.hal.records import replace
from neurald.hal.sync.deadline import deadline_in
from neurald.hal.unpicklable import Unpicklable
from neurald.runtime.compilation import Compilation
from neurald.runtime.compilation_settings import CompilationSettings
from neurald.runtime.devices.explicit_list import require_one_device
from neurald.runtime.devices.extensions import with_attribute
from neurald.runtime.execution.compiled_model import COMPILE_ELSEWHERE
from neurald.runtime.model.finished import finished_model
from neurald.runtime.model_compilation import ModelCompilation
from neurald.runtime.partitioning.options import Partitioning, PartitioningMode, default_partitioning
from neurald.runtime.plan.preparer import Caching
from neurald.runtime.plan.progress import ProgressCallback, ProgressMonitor
from neurald.runtime.plan.startup import Startup

if TYPE_CHECKING:
    from neurald.runtime.plan.provided_plan import ProvidedPlan

CACHE_TOKEN_BYTES = 32

#: Maximum share of the compile timeout that querying devices may take. Devices that have not
#: answered by then are not used.
_MAX_QUERY_SHARE = 0.5


def devices(deadline_s: float | None = None) -> tuple[Device, ...]:
    """Returns the devices that are ready; see `neurald.runtime.devices.discovery.devices`."""
    # With a list of devices, nothing that finds daemons is imported.
    from neurald.runtime.devices import discovery

    return discovery.devices(deadline_s)


class CompilationBuilder(Unpicklable):
    """Collects the options for compiling a model. Not thread-safe.

    Args:
        model: a finished model.
        devices: the only devices that may be used, or their names; their errors are raised to the
            caller. None allows every device, and the CPU device takes over from a device that
            fails.
        threads: number of CPU threads that one execution may use; None to let the driver choose.
        strict: whether to enforce Android's rule that time limits and timing need a list of exactly
            one device.

    Raises:
        UnexpectedNull: `model` is None.
        BadState: the model is not finished.
        BadData: the list of devices is empty or contains a device twice, or `threads` is not in 1
            to 1024.
        UnavailableDevice: there is no device of a name.
    """

    instead_of_pickling = COMPILE_ELSEWHERE

    def __init__(
        self,
        model: Model,
        devices: Sequence[Device | str] | None = None,
        threads: int | None = None,
        *,
        strict: bool = False,
    ) -> None:
        if devices is not None:
            from neurald.runtime.devices.named_devices import chosen_devices  # Most programs list none.

            devices = chosen_devices(devices)
        if threads is not None and not 1 <= integer(threads, "threads") <= MAX_THREADS:
            raise BadData(f"threads is {shown(threads)}; a number from 1 to {MAX_THREADS} is expected")
        self._model = finished_model(model)
        self._settings = CompilationSettings(
            devices=devices,
            threads=None if threads is None else integer(threads, "threads"),
            strict=strict,
            partitioning=default_partitioning(),
        )
        self._finished = False

    def __repr__(self) -> str:
        chosen = self._settings.devices
        devices = "any device" if chosen is None else ", ".join(each.name for each in chosen)
        return (
            f"<CompilationBuilder of {self._model!r} for {devices}{', finished' if self._finished else ''}>"
        )

    def set_preference(self, preference: Preference) -> None:
        """Sets what compilation optimises for.

        Raises:
            BadData: the value is not a preference.
            BadState: the compilation is finished.
        """
        self._require_open()
        self._set(preference=member(preference, Preference, "the preference"))

    def set_priority(self, priority: Priority) -> None:
        """Sets the priority of this compilation's executions among those of the same user.

        Raises:
            BadData: the value is not a priority.
            BadState: the compilation is finished.
        """
        self._require_open()
        self._set(priority=member(priority, Priority, "the priority"))

    def set_timeout(self, seconds: float | None) -> None:
        """Limits the total compile time of all steps, in seconds; None or 0 for no limit.

        Raises:
            BadData: the time is negative, or strict mode forbids it.
            BadState: the compilation is finished.
        """
        self._require_open()
        if self._settings.strict:
            require_one_device(self._settings.devices, "a time limit", " in strict mode")
        self._set(timeout_s=time_limit(seconds, "the timeout"))

    def set_caching(self, cache_dir: str | Path | None, token: bytes = b"") -> None:
        """Sets the directory for compiled artifacts; None disables caching.

        Without this call artifacts are stored in the user's own cache. The cache key always
        includes the content of the model. Nothing is stored for devices that need no cache files.

        Args:
            cache_dir: the directory.
            token: 32 bytes that identify the model to the application; part of the cache key.

        Raises:
            BadData: the token has another length, or the directory name is not valid.
            WrongType: the directory is not a path, or the token is not bytes.
            BadState: the compilation is finished.
        """
        self._require_open()
        caching = None
        if cache_dir is not None:
            directory = file_path(cache_dir, "the cache directory")
            if len(instance(token, bytes, "the cache token")) != CACHE_TOKEN_BYTES:
                raise BadData(
                    f"the cache token has {len(token)} bytes; a directory of your own needs one of "
                    f"{CACHE_TOKEN_BYTES} bytes, which identifies the model to the application"
                )
            caching = Caching(directory=directory, token=token)
        self._set(caching=caching, caches_by_default=False)

    def add_extension_attribute(self, extension: str, attribute: int, value: bytes) -> None:
        """Sets a compilation attribute of a vendor's extension.

        The attributes are part of the cache key.

        Args:
            extension: name of the extension.
            attribute: its code within the extension, among the compilation attributes.
            value: the bytes; all attributes together may have at most 65,536.

        Raises:
            BadData: the list of devices does not have exactly one entry, that device does not
                declare the attribute, or the attribute already has a value.
            BadState: the compilation is finished.
        """
        self._require_open()
        (device,) = require_one_device(self._settings.devices, "an attribute of an extension")
        attributes = with_attribute(
            self._settings.attributes, AttributeUse.COMPILATION, extension, attribute, value, [device]
        )
        self._set(attributes=attributes)

    def set_partitioning(self, partitioning: Partitioning | PartitioningMode | int | str) -> None:
        """Sets how the model is split over devices.

        Args:
            partitioning: all options, or only a mode (0, 1 or 2) or the name of a policy; the other
                options then have their defaults.

        Raises:
            BadData: there is no such mode or policy.
            BadState: the compilation is finished.
        """
        self._require_open()
        self._set(partitioning=_partitioning(partitioning))

    def set_startup(self, startup: Startup) -> None:
        """Sets whether `finish` waits for optimised code.

        With INSTANT it returns as soon as every step has code of any kind: what the cache has, or
        else a first tier. That is one of the CPU device, also for steps of other devices. Optimised
        code is prepared in the background and replaces the first tier between two calls. With
        OPTIMIZED it returns when all code is optimised.

        The default is INSTANT if neurald chooses the devices, and OPTIMIZED for an explicit list,
        unless the environment variable NEURALD_STARTUP is set.

        Raises:
            WrongType: the value is not a startup.
            BadState: the compilation is finished.
        """
        self._require_open()
        if not isinstance(startup, Startup):
            raise WrongType(
                f"the startup is {shown(startup)}; Startup.INSTANT or Startup.OPTIMIZED is expected"
            )
        self._set(startup=startup)

    def set_verification(self, sample: float | None) -> None:
        """Sets for which share of the time executions are verified on the CPU device.

        The CPU device then executes steps of other devices, too, in four times that share of the
        executions at most, so that executions take no larger share longer. It does so in the
        background, for at most ten times the share of the time; only the first verified execution
        waits for it. The first ten that can be verified follow each other, at the expense of the
        first `10 / sample`, and later ones are at random distances. With 1 every execution is
        verified, and waits.

        Integers must be equal, quantised values may differ by one step of the scale, and
        floating-point values by the bounds of the conformance suite; the bounds are wider for steps
        of several operations and for relaxed models. If results differ by more, the CPU device runs
        the step from then on, also with an explicit list of devices, and an execution that waited
        has its results. In the background, the operations are found that the device computes wrong.
        They are no longer given to this version of its driver by any application of the user, until
        `neurald forgive`. `Compilation.explain` and `neurald status` show what was found.

        Args:
            sample: share of the time, from 0 to 1; 0 or None to verify nothing, which is the
                default.

        Raises:
            BadData: the share is not in 0 to 1.
            BadState: the compilation is finished.
        """
        self._require_open()
        share = 0.0 if sample is None else number(sample, "the share of verified executions")
        if not 0 <= share <= 1:
            raise BadData(
                f"the share of verified executions is {shown(sample)}; a number from 0 to 1 is expected"
            )
        self._set(verified_share=share)

    def set_progress_callback(self, callback: ProgressCallback | None) -> None:
        """Sets a function that is called while a step is prepared for longer than a second.

        Args:
            callback: the function, which is called every 0.2 s for each such step, and once at its
                end, from other threads but never at the same time; None for no calls.

        Raises:
            WrongType: it cannot be called.
            BadState: the compilation is finished.
        """
        self._require_open()
        if callback is not None and not callable(callback):
            raise WrongType(f"the callback is {shown(callback)}; a function is expected")
        self._set(monitor=None if callback is None else ProgressMonitor(callback))

    def use_plan(self, plan: "ProvidedPlan", note: str) -> None:
        """Uses a plan that was made before, as far as it fits; see `neurald.load_plan`.

        Only neurald itself calls this.

        Args:
            plan: the plan with artifacts.
            note: the note for explanations, if it fits.

        Raises:
            BadState: the compilation is finished.
        """
        self._require_open()
        self._set(plan=plan, plan_note=note)

    def share_state(self, other: "Compilation") -> None:
        """Shares the variables of the same names with another compilation.

        A value that one compilation assigns is read by the other, as with the signatures of a
        `.tflite` file in one TFLite interpreter:

            train = CompilationBuilder(load_tflite(path, "train")).finish()
            builder = CompilationBuilder(load_tflite(path, "infer"))
            builder.share_state(train)
            infer = builder.finish()

        Executions of both compilations run one after another.

        Args:
            other: a compilation of another signature of the same file. It may itself share the
                state of a third one.

        Raises:
            BadData: variables of the same name have different initial values, or names are not
                unique.
            BadState: the compilation is finished.
            UnexpectedNull: `other` is None.
        """
        self._require_open()
        if other is None:
            raise UnexpectedNull(
                "other is None; a Compilation of a model with the same variables is expected"
            )
        instance(other, Compilation, "the other compilation").state.check_shared(self._model.state)
        self._set(shared_state=other.state)

    def finish(self) -> "Compilation":
        """Chooses a device for every operation and has the devices prepare their steps.

        Raises:
            BadData: no device can run an operation.
            BadState: the compilation is already finished.
            Error: a device of an explicit list failed.
        """
        notice_fork()
        with PREPARING:
            self._require_open()
            settings = self._settings
            compiling = ModelCompilation(self._model, settings)
            limit_s = None if settings.timeout_s is None else settings.timeout_s * _MAX_QUERY_SHARE
            query_deadline_s = deadline_in(limit_s)
            chosen = settings.devices
            if chosen is None:
                chosen = devices() if query_deadline_s is None else devices(query_deadline_s)
            compilation = compiling.finish(chosen, query_deadline_s)
            self._finished = True
            return compilation

    def _set(self, **settings: object) -> None:
        self._settings = replace(self._settings, **settings)

    def _require_open(self) -> None:
        if self._finished:
            raise BadState(
                "the builder has finished its compilation; settings of another need another CompilationBuilder"
            )


def _partitioning(wanted: Partitioning | PartitioningMode | int | str) -> Partitioning:
    if isinstance(wanted, Partitioning):
        return wanted
    if isinstance(wanted, str):
        return Partitioning(policy=wanted)
    return Partitioning(mode=member(wanted, PartitioningMode, "the partitioning"))
