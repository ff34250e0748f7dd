"""Rules about device memory, and about the memory that models and verdicts take."""

import contextlib
import gc
import statistics
import time
import weakref
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from neurald.hal.accounting.limits import Limits
from neurald.hal.device import BufferDescription, BufferRole
from neurald.hal.errors import OpFailed
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.request import Argument, Request
from neurald.hal.records import replace
from neurald.service.conformance.cases.chain import heavy_models, supported_chains
from neurald.service.conformance.cases.guard_bytes import pattern
from neurald.service.conformance.cases.runner import bind, execute_options, find_error, prepare_options
from neurald.service.conformance.rules.rule import (
    Declined,
    Subject,
    prepare_case,
    require,
    require_correct,
    require_error,
)

#: Numbers of models that are prepared and dropped: some to fill the pools of the device, then
#: batches whose memory is measured.
_WARM_UPS, _BATCHES, _BATCH = 4, 3, 4
#: Time limit of a verdict.
_MAX_VERDICT_S = 2.0
_MEBIBYTE = 1 << 20
_MAX_VERDICT_BYTES = 128 * _MEBIBYTE
_STATUS = Path("/proc/self/status")


def device_memory(subject: Subject) -> None:
    """Requires that device memory can hold an output, and can then be an input."""
    prepared = prepare_case(subject)
    case = subject.case
    role = BufferRole(prepared_model=prepared, index=0)
    expected = case.expected[0]
    description = BufferDescription(dimensions=expected.shape, output_roles=(role,))
    try:
        memory, other = (subject.device.allocate(description) for _ in range(2))
    except OpFailed as reason:
        raise Declined(str(reason)) from None
    require(memory.size >= 0, f"the device memory has {memory.size} bytes")
    missing = replace(description, output_roles=(replace(role, index=len(case.expected)),))
    require_error(lambda: subject.device.allocate(missing), "memory for an output that does not exist")
    content = pattern(1, expected.nbytes)
    _write(other, content, expected.shape)
    bound = bind(case)
    request = bound.request
    argument = replace(_whole(memory, expected.nbytes), pool=len(request.pools), dimensions=expected.shape)
    written = Request(
        inputs=request.inputs, outputs=(argument, *request.outputs[1:]), pools=(*request.pools, memory)
    )
    result = prepared.execute(written, execute_options())
    found = _read(memory, expected.nbytes)
    # The output is copied to the host memory of the request, where it is checked as usual.
    bound.output(0, expected.nbytes)[:] = found
    error = find_error(case, bound, result)
    require(not error, f"with an output in device memory: {error}")
    require(_read(other, expected.nbytes) == content, "it wrote to other device memory")
    _require_usable_as_input(subject)
    if subject.is_remote:
        no_role = BufferDescription(dimensions=expected.shape)
        require_error(lambda: subject.device.allocate(no_role), "memory without a role")


def _require_usable_as_input(subject: Subject) -> None:
    """Requires that device memory that was written before can be an input."""
    case, value = subject.case, subject.case.inputs[0]
    if not value.nbytes:
        return
    prepared = prepare_case(subject)
    role = BufferRole(prepared_model=prepared, index=0)
    memory = subject.device.allocate(BufferDescription(dimensions=value.shape, input_roles=(role,)))
    content = value.tobytes()
    _write(memory, content, value.shape)
    bound = bind(case)
    request = bound.request
    argument = replace(_whole(memory, value.nbytes), pool=len(request.pools), dimensions=value.shape)
    read = Request(
        inputs=(argument, *request.inputs[1:]), outputs=request.outputs, pools=(*request.pools, memory)
    )
    error = find_error(case, bound, prepared.execute(read, execute_options()))
    require(not error, f"with an input in device memory: {error}")
    require(_read(memory, value.nbytes) == content, "it wrote to an input in device memory")


def _whole(memory: Memory, size: int) -> Argument:
    """Returns an argument that spans a memory; device memory has no bytes on the host."""
    return Argument(pool=0, offset=0, length=0 if isinstance(memory, DeviceBuffer) else size)


def _write(memory: Memory, content: bytes, dimensions: tuple[int, ...]) -> None:
    if isinstance(memory, DeviceBuffer):
        memory.write(HostMemory(content), dimensions)
    else:
        memory.view(0, len(content))[:] = content


def _read(memory: Memory, size: int) -> bytes:
    if not isinstance(memory, DeviceBuffer):
        return bytes(memory.view(0, size))
    target = HostMemory(bytearray(size))
    memory.read(target)
    return bytes(target.view())


def release_of_models(subject: Subject) -> None:
    """Requires that the memory of a prepared model is released with its last reference."""
    if subject.is_remote:
        # These are more than a session may hold at a time.
        for _ in range(Limits().prepared_models + 10):
            prepare_case(subject)
        require_correct(subject, bind(subject.case), prepare_case(subject), "after many prepared models")
        return
    prepared = prepare_case(subject)
    require_correct(subject, bind(subject.case), prepared, "before it is dropped")
    with contextlib.suppress(TypeError):
        reference = weakref.ref(prepared)
        del prepared
        gc.collect()
        require(reference() is None, "a prepared model still exists without references")
    heavy = heavy_models(subject.device)
    if heavy is None:
        raise Declined("the device supports no operation with large constants")
    model, size = heavy
    for number in range(_WARM_UPS):
        subject.device.prepare_model(model(number), prepare_options())
    gc.collect()
    held = [_held_bytes()]
    for batch in range(_BATCHES):
        for number in range(_BATCH):
            subject.device.prepare_model(model(_WARM_UPS + batch * _BATCH + number), prepare_options())
        gc.collect()
        held.append(_held_bytes())
    # Something else in this process may allocate or release memory during one of the batches.
    grown = statistics.median(after - before for before, after in pairwise(held))
    require(
        grown < _BATCH * size // 2,
        f"{grown / _MEBIBYTE:.0f} MiB are still in use after {_BATCH} models with "
        f"{size / _MEBIBYTE:.0f} MiB of constants each were dropped (median of {_BATCHES} times)",
    )


def verdicts_are_cheap(subject: Subject) -> None:
    """Requires that verdicts are fast and do not allocate memory for operands."""
    if subject.is_remote:
        raise Declined("the allocations of a daemon cannot be observed")
    for chain in supported_chains(subject.device):
        model = chain.huge()
        if model is None:
            continue
        with _peak() as peak:
            started = time.monotonic()
            answers = subject.device.supported_operations(model)
            elapsed = time.monotonic() - started
        require(len(answers) == 1, f"{len(answers)} verdicts for a model with one operation")
        require(
            elapsed < _MAX_VERDICT_S,
            f"{chain.name}: a verdict took {elapsed:.1f} s; at most {_MAX_VERDICT_S:g} s are allowed",
        )
        require(
            peak[0] < _MAX_VERDICT_BYTES,
            f"{chain.name}: a verdict on tensors of 1 GiB took {peak[0] / _MEBIBYTE:.0f} MiB; "
            f"at most {_MAX_VERDICT_BYTES / _MEBIBYTE:.0f} MiB are allowed",
        )
        return
    raise Declined("the device supports no operation on large tensors")


@contextlib.contextmanager
def _peak() -> Iterator[list[int]]:
    """Yields a list whose element is the growth of the peak memory of this process, in bytes.

    The element is set when the context ends.
    """
    grown = [0]
    before = _status_bytes("VmRSS")
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    highest = _status_bytes("VmHWM")
    yield grown
    grown[0] = _status_bytes("VmHWM") - max(before, highest)


def _held_bytes() -> int:
    """Returns how much memory this process holds that is not read from files.

    The kernel drops pages of files, which would hide what a driver keeps.
    """
    return sum(map(_status_bytes, ("RssAnon", "RssShmem", "VmSwap")))


def _status_bytes(name: str) -> int:
    """Returns a size of this process from /proc/self/status."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
