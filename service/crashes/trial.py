"""A sacrificial process, which repeats the death of a driver to find the operations that cause it.

It reads a `TrialJob` from standard input, and writes a `TrialReport` to standard output. Each trial
runs part of the model on a device of its own in a child process, whose death is the answer. All of
them run in the sandbox of the driver, at a low priority, with limits of time and memory, and are
the first that the kernel ends if memory becomes scarce.

The search is delta debugging (Zeller and Hildebrandt, 2002): it removes operations as long as the
rest still kills. Weights are not known here, so they are zeros. A death that depends on them, or on
the inputs, does not happen again; then nothing is narrowed.
"""

import contextlib
import mmap
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from neurald.hal.cache.secret import keep_derived_secret
from neurald.hal.crashes.breadcrumbs import recorded_version
from neurald.hal.crashes.outline import ModelOutline
from neurald.hal.crashes.pattern import ModelSignatures
from neurald.hal.decoding import from_msgpack
from neurald.hal.device import Device, ExecuteOptions, PrepareOptions, declared_extensions
from neurald.hal.errors import BadData, Error
from neurald.hal.memory.alignment import align
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.extension import Extension
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Lifetime, OperandType, byte_size
from neurald.hal.process.address import Address
from neurald.hal.process.files.bounded_read import read_at_most
from neurald.hal.process.own_program import find_modules_here
from neurald.hal.process.parent import die_with
from neurald.hal.records import DECODE_ERRORS, replace
from neurald.hal.registry import create_device
from neurald.hal.rpc.wire.model import decode_model
from neurald.hal.validation.model_rules import validate_model
from neurald.service.crashes.trial_job import TrialJob, TrialReport
from neurald.service.sandbox.sandbox import enter

#: Sizes of open dimensions.
_OPEN_SIZE: Final = 2
#: Space for outputs whose size is not known.
_UNKNOWN_BYTES: Final = 1 << 16
#: Models with larger constants are not tried.
_MAX_POOL_BYTES: Final = 1 << 30
_MAX_OUTPUT_BYTES: Final = 1 << 28
#: The same as that of processes that compile for a driver.
_NICE: Final = 10
_MAX_INPUT_BYTES: Final = 1 << 20
_SURVIVED: Final = 0
_IMPOSSIBLE: Final = 3
_FIRST_TO_END: Final = 1000
#: Signals by which a child ends for other reasons than the model.
_FOREIGN: Final = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def smallest_part(
    count: int, kills: Callable[[Sequence[int]], bool], has_time: Callable[[], bool]
) -> tuple[int, ...]:
    """Returns the smallest part of 0 to `count` - 1 that was found to kill; all of it does.

    Args:
        count: the count of operations.
        kills: tries a part.
        has_time: returns whether the search may go on.
    """
    part = tuple(range(count))
    pieces = 2
    while len(part) > 1 and has_time():
        size = -(-len(part) // pieces)
        split = [part[start : start + size] for start in range(0, len(part), size)]
        rests = [tuple(each for each in part if each not in set(piece)) for piece in split]
        for candidate in (*split, *(rests if len(split) > 2 else ())):
            if not has_time():
                return part
            if kills(candidate):
                is_piece = candidate in split
                part, pieces = candidate, 2 if is_piece else max(2, pieces - 1)
                break
        else:
            if size == 1:
                return part
            pieces = min(len(part), 2 * pieces)
    return part


def part_of(model: Model, positions: Sequence[int]) -> Model:
    """Returns a model of some operations; what others compute becomes an input.

    Args:
        model: a valid model.
        positions: the positions of operations of its main graph.
    """
    graph = model.main
    operations = tuple(graph.operations[position] for position in sorted(positions))
    read = [index for operation in operations for index in operation.inputs]
    written = [index for operation in operations for index in operation.outputs]
    variables = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_INPUT, Lifetime.SUBGRAPH_OUTPUT)
    outside = [
        index for index in read if graph.operands[index].lifetime in variables and index not in set(written)
    ]
    inputs = tuple(dict.fromkeys(outside))
    outputs = tuple(dict.fromkeys(written))
    roles = dict.fromkeys(inputs, Lifetime.SUBGRAPH_INPUT) | dict.fromkeys(outputs, Lifetime.SUBGRAPH_OUTPUT)
    numbers = {index: number for number, index in enumerate(dict.fromkeys((*read, *written)))}

    def operand(index: int) -> Operand:
        found = graph.operands[index]
        return replace(found, lifetime=roles[index]) if index in roles else found

    main = Subgraph(
        operands=tuple(operand(index) for index in numbers),
        operations=tuple(
            replace(
                each,
                inputs=tuple(numbers[index] for index in each.inputs),
                outputs=tuple(numbers[index] for index in each.outputs),
            )
            for each in operations
        ),
        inputs=tuple(numbers[index] for index in inputs),
        outputs=tuple(numbers[index] for index in outputs),
    )
    return Model(main=main, referenced=model.referenced, pools=model.pools, relaxed=model.relaxed)


def model_of(outline: bytes, extensions: Sequence[Extension] = ()) -> Model:
    """Returns the model of an outline, with zeros for the weights.

    Args:
        outline: the outline from `neurald.hal.crashes.outline`.
        extensions: vendor extensions whose operations it may have.

    Raises:
        BadData: it is not an outline of a model, or the constants are too large.
    """
    try:
        found = from_msgpack(outline, ModelOutline)
    except DECODE_ERRORS as error:
        raise BadData(f"the outline of the model is not valid: {error}") from None
    if sum(found.pools) > _MAX_POOL_BYTES or min(found.pools, default=1) < 1:
        raise BadData(f"the model has constants of {sum(found.pools)} bytes, which is too much for a trial")
    contents = [mmap.mmap(-1, size) for size in found.pools]
    for pool, offset, content in found.constants:
        if not 0 <= pool < len(contents) or not 0 <= offset <= len(contents[pool]) - len(content):
            raise BadData("the outline of the model has a constant outside of its pool")
        contents[pool][offset : offset + len(content)] = content
    pools: list[Memory] = [HostMemory(memoryview(content).toreadonly()) for content in contents]
    model = decode_model(found.graphs, pools, extensions)
    validate_model(model)
    return model


def run_once(device: Device, model: Model, fill: int) -> None:
    """Makes a device do all that a driver does with a model.

    Args:
        device: the device to try.
        model: a valid model.
        fill: the value of each byte of its inputs.

    Raises:
        Error: the device refuses the model or fails.
    """
    verdicts = device.supported_operations(model)
    if not all(verdict.ok for verdict in verdicts):
        raise BadData("the device does not support each operation")
    prepared = device.prepare_model(model, PrepareOptions())
    prepared.execute(_request(model, fill), ExecuteOptions())


def _request(model: Model, fill: int) -> Request:
    """Returns a request with one pool for each argument."""
    pools: list[Memory] = []
    graph = model.main

    def argument(index: int, *, is_input: bool) -> Argument:
        operand = graph.operands[index]
        shape = tuple(size or _OPEN_SIZE for size in operand.dimensions or ())
        is_sized = operand.dimensions is not None and operand.type is not OperandType.TENSOR_STRING
        size = byte_size(operand.type, shape) if is_sized else _UNKNOWN_BYTES
        if size > _MAX_OUTPUT_BYTES:
            raise BadData(f"an argument has {size} bytes, which is too much for a trial")
        content = mmap.mmap(-1, max(1, align(size)))
        if is_input and fill:
            content[:size] = bytes([fill]) * size
        pools.append(HostMemory(memoryview(content)))
        dimensions = shape if is_input else None
        return Argument(pool=len(pools) - 1, length=size, dimensions=dimensions)

    inputs = tuple(argument(index, is_input=True) for index in graph.inputs)
    outputs = tuple(argument(index, is_input=False) for index in graph.outputs)
    return Request(inputs=inputs, outputs=outputs, pools=tuple(pools))


class _Trials:
    """Runs trials in child processes."""

    def __init__(self, job: TrialJob) -> None:
        self._job = job
        self._process = os.getpid()
        self._end_s = time.monotonic() + job.total_s
        self.count = 0

    def has_time(self) -> bool:
        """Returns whether another trial may begin."""
        return time.monotonic() < self._end_s

    def kills(self, positions: Sequence[int] | None) -> bool:
        """Returns whether a part of the model kills.

        Args:
            positions: the positions of its operations; None for the whole model, none for the
                device alone.
        """
        self.count += 1
        child = os.fork()
        if not child:
            self._run(positions)
        return self._is_dead(child)

    def _is_dead(self, child: int) -> bool:
        descriptor = os.pidfd_open(child)
        try:
            left_s = min(self._job.trial_s, max(0.0, self._end_s - time.monotonic()))
            has_ended, _, _ = select.select([descriptor], [], [], left_s)
        finally:
            os.close(descriptor)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not has_ended:
            return self._job.hangs and self.has_time()
        if os.WIFSIGNALED(status):
            return os.WTERMSIG(status) not in _FOREIGN
        return os.WEXITSTATUS(status) not in (_SURVIVED, _IMPOSSIBLE)

    def _run(self, positions: Sequence[int] | None) -> None:
        """Runs a trial in a child, which ends here."""
        status = _IMPOSSIBLE
        try:
            os.setpgid(0, 0)
            die_with(self._process)
            limit = self._job.memory_bytes
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(nothing, number)
            device = create_device(self._job.driver)
            if recorded_version(device.version) == self._job.version:
                model = model_of(self._job.outline, declared_extensions(device))
                tried = model if positions is None else part_of(model, positions)
                if tried.main.operations:
                    validate_model(tried)
                    for fill in (0, 1):
                        run_once(device, tried, fill)
                status = _SURVIVED
        except BaseException:
            # Errors are answers of a driver that lives.
            status = _IMPOSSIBLE
        finally:
            os._exit(status)


def run(job: TrialJob) -> TrialReport:
    """Searches for the operations that kill."""
    # Code of the driver runs here, too, which must not find the installation's secret in memory.
    keep_derived_secret(job.driver)
    sandbox = enter(
        job.sandbox,
        [Address.parse(job.address)],
        [Path(path) for path in job.writable],
        [Path(path) for path in job.readable],
        driver=job.driver,
        is_own_process=True,
    )
    try:
        sandbox.close()
        if ":" in job.driver:
            find_modules_here()
        return _search(_Trials(job), job)
    except (Error, OSError) as error:
        return TrialReport(problem=str(error))
    finally:
        sandbox.remove_temporary_files()


def _search(trials: _Trials, job: TrialJob) -> TrialReport:
    # No device is created in this process: it might start threads, and a process with threads
    # cannot fork.
    model = model_of(job.outline)
    if trials.kills(()):
        return TrialReport(
            trials=trials.count, problem="the device cannot be created in the sandbox of a trial"
        )
    if not trials.kills(None):
        return TrialReport(trials=trials.count, is_complete=trials.has_time())
    found = smallest_part(len(model.main.operations), trials.kills, trials.has_time)
    return TrialReport(
        kills=True,
        pattern=ModelSignatures(part_of(model, found)).pattern(),
        trials=trials.count,
        is_complete=trials.has_time(),
    )


def main() -> None:
    """Reads a job, and writes a report."""
    os.nice(_NICE)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_FIRST_TO_END), encoding="ascii")
    job = from_msgpack(read_at_most(sys.stdin.buffer, _MAX_INPUT_BYTES), TrialJob)
    sys.stdout.buffer.write(msgspec.msgpack.encode(run(job)))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
