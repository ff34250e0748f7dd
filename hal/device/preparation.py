"""Preparation of models: options, compiled models as artifacts, and compilation elsewhere."""

import time
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from neurald.hal.errors import BadData, MissedDeadlinePersistent, MissedDeadlineTransient
from neurald.hal.memory.pool import Memory
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.model.types import Preference, Priority
from neurald.hal.sync.cancellation import Cancellation

#: How many threads one execution may use.
MAX_THREADS = 1024
#: The length of `PrepareOptions.cache_key` if it is not empty.
CACHE_KEY_BYTES = 32
#: How many cache files of each kind a prepared model may need.
MAX_CACHE_FILES = 32

#: Shapes of inputs that a model leaves open, by operand.
InputShapes = Mapping[int, tuple[int, ...]]


class CacheFilesNeeded(Struct, frozen=True, kw_only=True):
    """The cache files that a prepared model of a device needs. (0, 0) means that it caches nothing.

    Raises:
        BadData: a number is not in 0 to 32. Such a device is not registered.
    """

    model: int = 0
    data: int = 0

    def __post_init__(self) -> None:
        for kind, count in (("model", self.model), ("data", self.data)):
            if not 0 <= count <= MAX_CACHE_FILES:
                raise BadData(
                    f"a device needs {count} {kind} cache files; 0 to {MAX_CACHE_FILES} are expected"
                )

    def __bool__(self) -> bool:
        """Returns whether the device caches anything."""
        return bool(self.model or self.data)


class Artifact(Struct, frozen=True, kw_only=True):
    """A compiled model as it is cached: as many memories as `Device.cache_files_needed` says.

    Attributes:
        model: data that determines what is executed, for example machine code.
        data: data that only determines values, for example packed weights.
        seal: proves that a driver daemon made the artifact; empty for devices in this process.
        is_verified: whether the content was compared with a digest that this installation has
            authenticated, so that the driver need not look for damages.
    """

    model: tuple[Memory, ...] = ()
    data: tuple[Memory, ...] = ()
    seal: bytes = b""
    is_verified: bool = False


class Variants(Protocol):
    """Stores what a prepared model compiles later, for shapes that are only known at execution.

    Artifacts are those of `PreparedModel.artifact`. Failures of the cache are not reported here.
    Thread-safe.
    """

    def load(self, name: bytes) -> "Artifact | None":
        """Returns the artifact of this name for the same model, device and options, or None."""
        ...

    def store(self, name: bytes, artifact: "Artifact", compile_ms: float) -> None:
        """Stores an artifact, if possible.

        Args:
            name: the name of the variant.
            artifact: the artifact to store.
            compile_ms: how long compiling it took.
        """
        ...


class CacheRecord(Struct, frozen=True, kw_only=True):
    """The entry of a prepared model in a cache that was loaded or stored without an artifact call.

    Such entries are those of a daemon's own cache, and of variants.

    Attributes:
        key: the key of the entry, in hexadecimal.
        was_there: whether it existed before, so that nothing was compiled.
        compile_ms: how long compiling took.
    """

    key: str
    was_there: bool
    compile_ms: float


class CompileResult(Struct, frozen=True, kw_only=True):
    """The result of `neurald.hal.compiling.contract.CompilesApart.compile`.

    Attributes:
        note: information that the driver passes to itself.
        artifact: None if nothing is compiled.
    """

    note: str = ""
    artifact: Artifact | None = None


class Compiler(Protocol):
    """Compiles one model in another process. Thread-safe."""

    def compile(
        self,
        shapes: InputShapes | None = None,
        *,
        is_open: bool = False,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> CompileResult:
        """Calls `CompilesApart.compile` for the model in another process.

        Args:
            shapes: the shapes of inputs that the model leaves open, by operand.
            is_open: see `CompilesApart.compile`.
            deadline_s: the deadline on the clock of `time.monotonic()`; None for no limit.
            cancellation: ends the wait and the other process.

        Raises:
            MissedDeadlineTransient: the deadline passed; the other process is terminated.
            Cancelled: it was cancelled, or the client is gone; the other process is ended.
            ResourceExhaustedPersistent: compiling exceeds the limit of time or memory that the
                message names.
            OpFailed: the other process crashed.
            Error: what `CompilesApart.compile` raises.
        """
        ...


class PrepareOptions(Struct, frozen=True, kw_only=True):
    """Options for preparing a model.

    Attributes:
        preference: what to optimise for.
        priority: the priority of the executions.
        deadline_s: the deadline on the clock of `time.monotonic()`; None for no limit.
        threads: how many threads one execution may use, at most `MAX_THREADS`; None leaves it to
            the driver.
        cache_key: 32 bytes that identify model, device and options, if `PreparedModel.artifact`
            will be called; empty if nothing is cached.
        variants: stores what is compiled for shapes known at execution; None if nothing is cached.
            It does not reach a device in another process, whose daemon has a storage of its own.
        shared: stores what all models of the device share, such as kernels; None if nothing is
            cached, or if the models are of clients that must not affect each other.
        cancellation: ends the preparation; None if it cannot be cancelled.
        compiler: compiles the model in another process; None if the device must compile in this
            one. Only given to devices that can use it, see
            `neurald.hal.compiling.contract.CompilesApart`.
        attributes: values of compilation attributes of extensions, all of which the device
            declares.
        first_tier: the prepared model of the same model and device that runs until this preparation
            ends; None if there is none. The device may take over what that consists of.
    """

    preference: Preference = Preference.FAST_SINGLE_ANSWER
    priority: Priority = Priority.MEDIUM
    deadline_s: float | None = None
    threads: int | None = None
    cache_key: bytes = b""
    variants: Variants | None = None
    shared: Variants | None = None
    attributes: tuple[AttributeValue, ...] = ()
    cancellation: Cancellation | None = None
    compiler: Compiler | None = None
    first_tier: object | None = None

    def require_time(self) -> None:
        """Raises MissedDeadlinePersistent if the deadline has passed before the preparation."""
        if self.deadline_s is not None and time.monotonic() >= self.deadline_s:
            raise MissedDeadlinePersistent("the deadline had passed before the model could be prepared")

    def require_wanted(self, where: str) -> None:
        """Raises an error if the preparation must stop. Drivers call it while they compile.

        Args:
            where: the where for the message: "before the model was compiled".

        Raises:
            Cancelled: it was cancelled, or its client is gone.
            MissedDeadlineTransient: its deadline has passed.
        """
        if self.cancellation is not None:
            self.cancellation.require_not_cancelled(where)
        if self.deadline_s is not None and time.monotonic() >= self.deadline_s:
            raise MissedDeadlineTransient(f"the deadline passed {where}")
