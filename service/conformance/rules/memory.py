"""Rules of the contract about memory: device memory, and memory that is released."""

import contextlib
import gc
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from neurald.hal.accounting.limits import Limits
from neurald.hal.device import BufferDescription, BufferRole
from neurald.hal.errors import OpFailed
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.types import Argument, Request
from neurald.service.conformance.cases.chain import heavy_models, supported_chains
from neurald.service.conformance.cases.guard_bytes import pattern
from neurald.service.conformance.cases.runner import bind, execute_options, prepare_options, wrong
from neurald.service.conformance.rules.rule import (
    Declined,
    Subject,
    prepared_of,
    require,
    require_error,
    require_right,
)

#: Numbers of models to prepare and drop: warm-ups that may fill the device's own pools, and
#: measured ones.
_WARM_UPS, _DROPPED = 4, 12
_QUICK_S = 2.0
_MEBIBYTE = 1 << 20
_VERDICT_BYTES = 128 * _MEBIBYTE
_STATUS = Path("/proc/self/status")


def memory_of_the_device(subject: Subject) -> None:
    """Requires that device memory holds an output, changes only then, and serves as an input."""
    prepared = prepared_of(subject)
    case = subject.case
    role = BufferRole(prepared_model=prepared, index=0)
    expected = case.expected[0]
    description = BufferDescription(dimensions=expected.shape, output_roles=(role,))
    try:
        memory, beside = (subject.device.allocate(description) for _ in range(2))
    except OpFailed as error:
        raise Declined(str(error)) from None
    require(memory.size >= 0, f"memory of {memory.size} bytes")
    missing = replace(description, output_roles=(replace(role, index=len(case.expected)),))
    require_error(lambda: subject.device.allocate(missing), "memory for an output that there is not")
    other = pattern(1, expected.nbytes)
    _write(beside, other, expected.shape)
    bound = bind(case)
    request = bound.request
    argument = replace(_whole(memory, expected.nbytes), pool=len(request.pools), dimensions=expected.shape)
    written = Request(
        inputs=request.inputs, outputs=(argument, *request.outputs[1:]), pools=(*request.pools, memory)
    )
    result = prepared.execute(written, execute_options())
    found = _read(memory, expected.nbytes)
    # Checked as if the device had written to the host.
    bound.output(0, expected.nbytes)[:] = found
    text = wrong(case, bound, result)
    require(not text, f"in memory of the device: {text}")
    require(_read(beside, expected.nbytes) == other, "it wrote to other memory of the device")
    _as_input(subject)
    if subject.is_remote:
        nothing = BufferDescription(dimensions=expected.shape)
        require_error(lambda: subject.device.allocate(nothing), "memory for nothing")


def _as_input(subject: Subject) -> None:
    case, value = subject.case, subject.case.inputs[0]
    if not value.nbytes:
        return
    prepared = prepared_of(subject)
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
    text = wrong(case, bound, prepared.execute(read, execute_options()))
    require(not text, f"with an input in memory of the device: {text}")
    require(_read(memory, value.nbytes) == content, "it wrote to an input in memory of the device")


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


def dropped_models(subject: Subject) -> None:
    """Requires that unreferenced prepared models are released with their memory."""
    if subject.is_remote:
        # More than a session may hold at a time.
        for _ in range(Limits().prepared_models + 10):
            prepared_of(subject)
        require_right(subject, bind(subject.case), prepared_of(subject), "after many prepared models")
        return
    prepared = prepared_of(subject)
    require_right(subject, bind(subject.case), prepared, "before it is dropped")
    with contextlib.suppress(TypeError):
        reference = weakref.ref(prepared)
        del prepared
        gc.collect()
        require(reference() is None, "a prepared model without references still exists")
    made = heavy_models(subject.device)
    if made is None:
        raise Declined("it supports no operation with large constants")
    model, size = made
    before = 0
    for number in range(_WARM_UPS + _DROPPED):
        if number == _WARM_UPS:
            gc.collect()
            before = _status_bytes("VmRSS")
        subject.device.prepare_model(model(number), prepare_options())
    gc.collect()
    grown = _status_bytes("VmRSS") - before
    require(
        grown < _DROPPED * size // 2,
        f"{_DROPPED} models with {size / _MEBIBYTE:.0f} MiB of constants were prepared and dropped, "
        f"and {grown / _MEBIBYTE:.0f} MiB are still in use",
    )


def verdicts_are_cheap(subject: Subject) -> None:
    """Requires that verdicts are fast and allocate no operands, and have no side effects."""
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
        require(len(answers) == 1, f"{len(answers)} verdicts on one operation")
        require(elapsed < _QUICK_S, f"{chain.name}: a verdict took {elapsed:.1f} s")
        require(
            peak[0] < _VERDICT_BYTES,
            f"{chain.name}: a verdict on tensors of 1 GiB allocated {peak[0] / _MEBIBYTE:.0f} MiB",
        )
        return
    raise Declined("it supports no operation on large tensors")


@contextlib.contextmanager
def _peak() -> Iterator[list[int]]:
    """Yields a list that will hold the growth of this process's peak memory in bytes."""
    grown = [0]
    before = _status_bytes("VmRSS")
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    highest = _status_bytes("VmHWM")
    yield grown
    grown[0] = _status_bytes("VmHWM") - max(before, highest)


def _status_bytes(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
