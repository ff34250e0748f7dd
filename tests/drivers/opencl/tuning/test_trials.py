"""Kernels are measured one by one, as separate kernels and as phases; a failure does not affect the
next one.
"""

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
from support.opencl.trials import as_gpu, good, slowed

from neurald.drivers.opencl.codegen.kernel_source import WORKSPACE_ZEROS, Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.errors import DeviceState
from neurald.drivers.opencl.runtime.launcher import CommandList, LaunchTime
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.tuning import trials
from neurald.drivers.opencl.tuning.trials import Bench, Trials, trials_of
from neurald.hal.errors import DeadObject
from neurald.hal.records import replace

if TYPE_CHECKING:
    import pyopencl as cl


def ones() -> Source:
    """Returns a source whose output is not zero."""
    return replace(good(), code=LazyCode.of(good().text.replace("a0[at] = (", "a0[at] = 1.0f + (")))


def times_of(
    device: DeviceContext, sources: list[Source], *, is_resident: bool = False
) -> list[float | None]:
    text, tried = trials_of(sources, device.facts, is_resident=is_resident)
    # As another process gets it.
    tried = msgspec.msgpack.decode(msgspec.msgpack.encode(tried), type=Trials)
    return list(Bench(device).times_ns(BuiltProgram.from_source(device, text), tried))


def counts_after(device: DeviceContext, sources: list[Source]) -> list[int]:
    """Returns the first two numbers of the last source's workspace after all are measured."""
    text, tried = trials_of(sources, device.facts, is_resident=False)
    bench = Bench(device)
    assert None not in list(bench.times_ns(BuiltProgram.from_source(device, text), tried))
    return counts_of(bench)


def counts_of(bench: Bench) -> list[int]:
    import pyopencl as cl

    memory, counts = bench._arena, np.zeros(2, np.int32)
    assert memory is not None
    cl.enqueue_copy(bench._queue, counts, memory, src_offset=trials._WORKSPACE, is_blocking=True)
    return [int(each) for each in counts]


def runs() -> Source:
    """Returns a source that counts in its workspace how often it runs."""
    return behind_a_workspace(
        "  if (at >=",
        "  if (group == 0 && lid == 0) ++((volatile __global int *)workspace)[0];\n  if (at >=",
    )


def adds(number: int) -> Source:
    """Returns a source that adds a number, which it takes, in its workspace whenever it runs."""
    source = runs()
    text = source.text.replace("__global int *status)", "__global int *status, const int z_added)")
    assert "++(" in text
    text = text.replace("++(", "(").replace("workspace)[0];", "workspace)[0] += z_added;")
    return replace(source, code=LazyCode.of(text, (number,)))


def test_kernels_take_the_numbers_of_their_layer(opencl: DeviceContext) -> None:
    for number in (3, -5):
        assert counts_after(opencl, [adds(7), adds(number)])[0] == number * (1 + trials._RUNS)


def test_phases_take_the_numbers_of_their_layer(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "_PHASES", 2)
    device = as_gpu(opencl)
    bench = Bench(device)
    text, tried = trials_of([adds(-5)], device.facts, is_resident=True)
    assert None not in list(bench.times_ns(BuiltProgram.from_source(device, text), tried))
    # Once in each launch, then twice.
    assert counts_of(bench)[0] == -5 * 3 * (1 + trials._RUNS)


def test_slower_kernels_take_longer(opencl: DeviceContext) -> None:
    """By so much that the load of the machine does not matter."""
    fast, slow = times_of(opencl, [good(), slowed(50000)])
    assert fast is not None
    assert slow is not None
    assert 0 <= fast < slow < math.inf


def test_the_time_of_a_phase_is_the_difference_that_repetitions_make(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of launches that take 7 units of time, and 3 for each time that the phase runs."""
    device = as_gpu(opencl)
    bench = Bench(device)
    counted = [0]

    class Commands(CommandList):
        def profile(self, queue: "cl.CommandQueue") -> tuple[LaunchTime, ...]:
            measured = super().profile(queue)
            counted.append(counts_of(bench)[0])
            phases, rest = divmod(counted[-1] - counted[-2], len(measured))
            assert rest == 0
            return tuple(replace(each, duration_ns=7 + 3 * phases) for each in measured)

    # Runtimes on CPUs take long to compile more phases.
    monkeypatch.setattr(trials, "_PHASES", 2)
    text, tried = trials_of([runs()], device.facts, is_resident=True)
    monkeypatch.setattr(trials, "CommandList", Commands)
    assert list(bench.times_ns(BuiltProgram.from_source(device, text), tried)) == [3]
    launches = 1 + trials._RUNS
    assert counted == [0, launches, 3 * launches]


def test_sources_that_cannot_run(opencl: DeviceContext) -> None:
    # Its kernel is not in the program.
    text, tried = trials_of([good(), slowed(1)], opencl.facts, is_resident=False)
    missing = msgspec.structs.replace(tried.calls[0], kernel="missing")
    tried = msgspec.structs.replace(tried, calls=(missing, tried.calls[1]))
    first, second = Bench(opencl).times_ns(BuiltProgram.from_source(opencl, text), tried)
    assert first is None
    assert second is not None


def test_memory_grows(opencl: DeviceContext) -> None:
    bench = Bench(opencl)
    for groups in (1, 50, 2):
        source = replace(good(), workspace_bytes=0)
        text, tried = trials_of([source], opencl.facts, is_resident=False)
        tried = msgspec.structs.replace(tried, arena_bytes=tried.arena_bytes * groups)
        (time_ns,) = bench.times_ns(BuiltProgram.from_source(opencl, text), tried)
        assert time_ns is not None


def test_workspaces_are_zero(opencl: DeviceContext) -> None:
    """The output of the previous source lies where this one has its counters."""
    launches = 1 + trials._RUNS
    for before in ([], [ones()], [good(), ones()]):
        assert counts_after(opencl, [*before, runs()])[0] == launches


def test_a_lost_device_is_reported(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    text, tried = trials_of([good(), slowed(1)], opencl.facts, is_resident=False)
    program = BuiltProgram.from_source(opencl, text)
    times = Bench(opencl).times_ns(program, tried)
    assert next(times) is not None
    state = DeviceState("Test")
    state.error(-2, "testing")
    monkeypatch.setattr(opencl, "state", state)
    with pytest.raises(DeadObject):
        next(times)


def behind_a_workspace(line: str, instead: str) -> Source:
    """Returns a source with a workspace before its arguments, and an additional line of text."""
    text = good().text.replace("__global int *status)", "__global uchar *workspace, __global int *status)")
    assert line in text
    return replace(good(), code=LazyCode.of(text.replace(line, instead)), workspace_bytes=WORKSPACE_ZEROS)


def test_inputs_are_zero(opencl: DeviceContext) -> None:
    """The previous source's output lies where this one has its inputs, perhaps indices."""
    writing = behind_a_workspace("a0[at] = (", "a0[at + 64] = 1.0f + (")
    reading = behind_a_workspace(
        "  if (at >=",
        "  if (lid == 0 && group == 0) {\n"
        "    ++((volatile __global int *)workspace)[0];\n"
        "    for (int i = 0; i < 64; ++i) ((volatile __global int *)workspace)[1] += a1[i] != 0;\n"
        "  }\n"
        "  if (at >=",
    )
    assert counts_after(opencl, [reading, writing, reading]) == [1 + trials._RUNS, 0]
