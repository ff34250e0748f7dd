"""Compiles models of this process in processes of their own.

So nothing of the compiler stays in an application's memory. What is compiled while the application
executes models has a low priority.
"""

import atexit
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from neurald.hal.cache.store import CacheLocation
from neurald.hal.cache.variants import SharedCache, VariantCache
from neurald.hal.compiling.leaving import leave
from neurald.hal.device import Artifact, CompileResult, Device, InputShapes, Variants
from neurald.hal.errors import Cancelled, OpFailed, ResourceExhaustedTransient
from neurald.hal.model.extension import vendor_extensions
from neurald.hal.model.model import Model
from neurald.hal.process.fork import forkable_lock, in_each_child
from neurald.hal.sync.cancellation import Cancellation

if TYPE_CHECKING:
    # Modules that start processes and talk to them are not needed before something is compiled.
    from neurald.hal.compiling.job import Keep, LocalModel
    from neurald.hal.compiling.pool import CompilePool

_lock: Final = forkable_lock()
#: By driver, and by whether the application waits for the results.
_pools: "dict[tuple[str, bool], CompilePool]" = {}
#: The compilations that run.
_running: set[Cancellation] = set()
#: On a busy processor, such a process gets 2.8 % of the time of one of normal priority. (Of the
#: class SCHED_IDLE it would get 0.3 %, and optimised code could take minutes.)
NICENESS: Final[int] = 16
#: How long a compilation may take, in seconds. At this priority, it may have to wait for the
#: others.
_COMPILE_S: Final = 24 * 3600
#: How long these may take to end after they were cancelled.
_END_S: Final = 1.0
#: How long the process that forks them waits for the next model. It has over 100 MB of memory.
_IDLE_S: Final = 10.0
#: How many models an exiting program leaves at most, and bytes of constants, which it copies.
_MAX_LEFT_MODELS: Final = 16
_MAX_LEFT_BYTES: Final = 64 << 20
#: The bytes of the models that were left.
_left: list[int] = []


class SeparateCompiler:
    """Implements `neurald.hal.device.Compiler` for a model of this process.

    Args:
        driver: the driver from which `neurald.hal.registry.create_device` creates the device.
        device: the device, which implements `neurald.hal.compiling.contract.CompilesApart`.
        model: the model.
        shared: see `neurald.hal.device.PrepareOptions`; the other process opens the same cache.
        is_awaited: True if the application waits for the result, so that it has normal priority.
    """

    def __init__(
        self,
        driver: str,
        device: Device,
        model: Model,
        shared: Variants | None = None,
        *,
        is_awaited: bool = False,
    ) -> None:
        self._driver, self._device, self._model = driver, device, model
        self._cache = shared.location if isinstance(shared, SharedCache) else None
        self.is_awaited = is_awaited

    def compile(
        self,
        shapes: InputShapes | None = None,
        *,
        is_open: bool = False,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> CompileResult:
        """See `Compiler.compile`."""
        with _running_until(cancellation or Cancellation()) as stop:
            pool = _pool(self._driver, self._device, is_awaited=self.is_awaited, stop=stop)
            job = pool.job(
                _encoded(self._model),
                self._model.pools,
                shapes,
                b"",
                is_open=is_open,
                shared_cache=self._cache,
            )
            return pool.run(job, self._model.pools, deadline_s, stop)

    def leave(self, shapes: Sequence[InputShapes], variants: Variants) -> None:
        """Leaves the model to another process, which compiles it when this process has exited.

        Args:
            shapes: sets of shapes of the inputs that it leaves open.
            variants: where the results are kept; the cache of this process.

        Raises:
            Error: no process takes it.
        """
        if isinstance(variants, VariantCache) and self._cache is not None and _is_local(self._model):
            from neurald.hal.compiling.job import Keep

            keep = Keep(
                parts=variants.parts,
                model=variants.model,
                shapes=tuple({index: tuple(each) for index, each in found.items()} for found in shapes),
            )
            leave_to_process(self._driver, self._device, self._model, keep, self._cache, variants.may_store)


def compile_common(driver: str, device: Device, cancellation: Cancellation) -> Artifact:
    """Compiles the code that all models of a device need, in another process.

    It has normal priority, since references, which run until then, are slow.

    Args:
        driver: see `SeparateCompiler`.
        device: it implements `neurald.hal.compiling.contract.CompilesCommonCode`.
        cancellation: ends it.

    Raises:
        Error: see `Compiler.compile`.
    """
    with _running_until(cancellation) as stop:
        pool = _pool(driver, device, is_awaited=True, stop=stop)
        job = pool.job(None, (), None, b"", is_open=False)
        compiled = pool.run(job, (), None, stop)
    if compiled.artifact is None:
        raise OpFailed(f"{device.name}: compiling the code of all models gave none")
    return compiled.artifact


@contextlib.contextmanager
def _running_until(stop: Cancellation) -> Iterator[Cancellation]:
    """Lets `end_processes` cancel the compilation of the block, which chooses a pool."""
    _running.add(stop)
    try:
        yield stop
    finally:
        _running.discard(stop)


def start_ahead(driver: str, device: Device, *, is_awaited: bool) -> None:
    """Starts the process that compiles, meanwhile, if it is certain that a model will follow soon.

    Args:
        driver, device, is_awaited: see `SeparateCompiler`.
    """
    _pool(driver, device, is_awaited=is_awaited).start()


def leave_to_process(
    driver: str,
    device: Device,
    model: Model | None,
    keep: "Keep",
    location: CacheLocation,
    is_unchanged: Callable[[], bool] = lambda: True,
) -> None:
    """Leaves a model to another process, which compiles it when this process has exited.

    Args:
        driver, device: see `SeparateCompiler`.
        model: all inputs have known shapes; no types are of vendors' extensions. None for the code
            that all models need.
        keep: where the result is kept.
        location: the location of the cache.
        is_unchanged: the function that says, after the constants were copied, whether they are
            those of the key.

    Raises:
        ResourceExhaustedTransient: too much was left before.
        Error: no process takes it.
    """
    from neurald.hal.compiling.job import LocalModel, shareable

    if model is not None:
        size = sum(pool.size for pool in model.pools)
        if len(_left) >= _MAX_LEFT_MODELS or sum(_left) + size > _MAX_LEFT_BYTES:
            raise ResourceExhaustedTransient(f"a model with {size} bytes of constants is not left as well")
        _left.append(size)
    memories = [] if model is None else [shareable(pool) for pool in model.pools]
    if is_unchanged():
        pool = _pool(driver, device, is_awaited=False)
        sent = None if model is None else LocalModel.of(model)
        job = pool.job(sent, memories, None, b"", is_open=False, shared_cache=location, keep=keep)
        pool.leave(job, memories)


def _pool(
    driver: str, device: Device, *, is_awaited: bool, stop: Cancellation | None = None
) -> "CompilePool":
    """Returns the pool of a driver.

    Args:
        driver, device, is_awaited: see `SeparateCompiler`.
        stop: of the compilation that needs it, which `end_processes` can already cancel.

    Raises:
        Cancelled: the compilation was cancelled. A new pool would have a process that
            `end_processes`, which cancels before it looks for pools, does not end.
    """
    from neurald.hal.accounting.limits import Limits
    from neurald.hal.compiling.pool import CompilePool

    with _lock:
        if stop is not None and stop.is_cancelled:
            raise Cancelled("the compilation was cancelled before it began")
        key = driver, is_awaited
        pool = _pools.get(key)
        if pool is None:
            pool = _pools[key] = CompilePool(
                driver,
                device,
                Limits(compile_s=_COMPILE_S),
                niceness=0 if is_awaited else NICENESS,
                idle_s=_IDLE_S,
            )
        return pool


def _is_local(model: Model) -> bool:
    return not vendor_extensions(model)


def _encoded(model: Model) -> "bytes | LocalModel":
    if _is_local(model):
        from neurald.hal.compiling.job import LocalModel

        return LocalModel.of(model)
    from neurald.hal.rpc.wire.model import encode_model  # Most applications need no protobuf.

    return encode_model(model)


def end_processes() -> None:
    """Cancels all compilations and ends their processes, which are started again when needed."""
    for stop in list(_running):
        stop.cancel()
    end_s = time.monotonic() + _END_S
    while _running and time.monotonic() < end_s:
        time.sleep(0.01)
    with _lock:
        pools = list(_pools.values())
        _pools.clear()
    for pool in pools:
        pool.close()


def _exit() -> None:
    """Leaves to later processes what they need, and ends the rest without waiting for it."""
    leave()
    for stop in list(_running):
        stop.cancel()
    with _lock:
        pools = list(_pools.values())
        _pools.clear()
    for pool in pools:
        pool.end_now()


def _forget() -> None:
    """Leaves the compiling processes to the parent, after a fork."""
    for pool in _pools.values():
        pool.forget()
    _pools.clear()
    _running.clear()
    _left.clear()


atexit.register(_exit)
in_each_child(_forget)
