"""A step as one persistent kernel computes the same as its phases."""

import re

import numpy as np
import pyopencl as cl
import pytest
from support.compiler.contractions import Cases
from support.opencl.sources import Bench, opencl_facts

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.drivers.opencl.codegen.dialect import functions_for
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.program_text import HEAD, function_text
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.runtime.cold_reads import ColdRead
from neurald.drivers.opencl.runtime.persistent_kernel import (
    ABORTED,
    SYNC_BYTES,
    called_functions,
    grid_barrier_text,
    is_supported,
    kernel_text,
    local_size,
    resident_groups,
)
from neurald.drivers.opencl.runtime.phase import Phase, barriers
from neurald.hal.records import replace

FACTS = opencl_facts()


def test_phases_need_the_same_work_group_size() -> None:
    plain = Source(code=LazyCode.of(""), arguments=(), groups=1, local_size=64)
    large = replace(plain, local_size=128, has_barriers=True)
    assert local_size([plain, large]) == 128
    assert local_size([plain]) == 256
    assert local_size([large, replace(large, local_size=256)]) is None


@pytest.mark.skipif(FACTS is None, reason="no OpenCL device")
def test_resident_groups_are_found_by_trial() -> None:
    assert FACTS is not None
    units = FACTS.compute_units
    assert resident_groups(FACTS, lambda groups: groups <= 2 * units) == 2 * units
    assert resident_groups(FACTS, lambda groups: False) == 0


@pytest.mark.skipif(
    FACTS is None or FACTS.is_nvidia, reason="no OpenCL device, or one that keeps groups resident"
)
def test_unsupported_devices() -> None:
    assert FACTS is not None
    assert not is_supported(FACTS)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.skipif(FACTS is None, reason="no OpenCL device")
def test_the_kernel_computes_the_same_as_its_phases(times: int) -> None:
    """With a single work-group, which is resident on every device. It changes outputs only.

    The second time, phases write what earlier ones of the same functions have written, and that of
    the product waits by itself.
    """
    assert FACTS is not None
    bench = Bench(FACTS.handle)
    cases = [Cases(3).matrix_product(Scalar.INT8, rows=2)]
    cases += [Cases(seed).depthwise(Scalar.FLOAT32) for seed in (1, 2)]
    arena = np.zeros(64, np.uint8)
    phases: list[Phase] = []
    for case in cases:
        source = candidates(case.kernel, FACTS, relaxed=False)[0]
        locations = []
        for value in source.arguments:
            content = np.zeros(value.shape, value.type.dtype) if value.constant is None else value.constant
            content = np.ascontiguousarray(case.arrays.get(value, content)).reshape(-1).view(np.uint8)
            locations.append(BufferLocation(Base.ARENA, arena.size))
            arena = np.concatenate([arena, content, np.zeros(256 - content.size % 64, np.uint8)])
        phases.append(Phase(source=source, locations=tuple(locations), status=0))
    assert phases[0].source.waits
    phases *= times
    assert [at for at, needs_barrier in enumerate(barriers(phases)) if needs_barrier] == [
        len(cases) * turn for turn in range(1, times)
    ]
    functions = {phase.source.name: function_text(phase.source) for phase in phases}
    own = "\n".join(
        (
            grid_barrier_text(is_nvidia=FACTS.is_nvidia),
            *functions.values(),
            # A launch of any number of groups: where a condition on the number of a group guards
            # barriers, PoCL 3.1 runs loops behind them for all work-items at least once.
            kernel_text("whole_step", phases, min_groups=0),
        )
    )
    program = cl.Program(bench.context, HEAD + functions_for(own) + own).build()
    sync = bench.buffer(np.zeros(SYNC_BYTES // 4, np.uint32))
    memory = bench.buffer(arena)
    kernel = cl.Kernel(program, "whole_step")
    kernel.set_args(memory, memory, sync, np.int32(len(phases)))
    items = local_size([phase.source for phase in phases])
    assert items is not None
    for _ in range(2):
        cl.enqueue_nd_range_kernel(bench.queue, kernel, (items,), (items,)).wait()
        left = np.empty(SYNC_BYTES // 4, np.uint32)
        cl.enqueue_copy(bench.queue, left, sync)
        assert not left[ABORTED]
    after = np.empty_like(arena)
    cl.enqueue_copy(bench.queue, after, memory)
    for case, phase in zip(cases, phases[: len(cases)], strict=True):
        start, stop = phase.locations[0].offset, phase.locations[0].offset + case.expected.nbytes
        case.assert_equal(after[start:stop].view(case.expected.dtype).reshape(case.expected.shape))
        after[start:stop] = arena[start:stop]
    np.testing.assert_array_equal(after, arena)


def test_phases_share_the_code_of_their_function() -> None:
    assert FACTS is not None
    once, twice = (
        Source(code=LazyCode.of(text), arguments=(), groups=1, local_size=64) for text in ("a", "b")
    )
    sources = [twice, once, twice]
    assert called_functions(sources, replace(FACTS, is_nvidia=True)) == {twice.name}
    assert not called_functions(sources, replace(FACTS, is_nvidia=False))


def test_phases_fetch_between_arriving_and_waiting() -> None:
    source = Source(code=LazyCode.of("a"), arguments=(Value((16,), Scalar.INT8),), groups=3, local_size=64)
    phases = [Phase(source=source, locations=(BufferLocation(Base.ARENA, 64),), status=8)] * 3
    reads = [(), (), (_read(512, 512),)]
    text = kernel_text("whole_step", phases, reads=reads)
    assert text.count("neurald_fetch(constants + 512UL, 512UL, first, groups, lid)") == 1
    # Only the first phase fetches, and none precedes it.
    assert text.index("neurald_fetch") < text.index("neurald_meet(sync, target += groups, 1, lid, 4194304)")
    assert "neurald_fetch" not in kernel_text("whole_step", phases)
    text = kernel_text("whole_step", phases, reads=[(), (_read(0, 1 << 30),), (_read(1 << 30, 512),)])
    second = text.index("neurald_arrive")
    assert second < text.rindex("neurald_fetch") < text.index("neurald_idle")


def test_barriers_count_groups_with_work() -> None:
    """All of them at the first barrier, behind which the initial state is not read any more."""

    def phase(groups: int, written: int, read: int, *, has_barriers: bool = True) -> Phase:
        values = Value((64,), Scalar.INT8), Value((64,), Scalar.INT8)
        source = Source(
            code=LazyCode.of("a"), arguments=values, groups=groups, local_size=64, has_barriers=has_barriers
        )
        places = tuple(BufferLocation(Base.ARENA, 64 * at) for at in (written, read))
        return Phase(source=source, locations=places, status=0)

    phases = [
        phase(9, 1, 0),
        phase(3, 2, 1),
        phase(4, 3, 1),
        phase(5, 4, 1, has_barriers=False),
        phase(2, 5, 4),
    ]
    phases[3] = replace(phases[3], source=replace(phases[3].source, groups=5, local_size=32))
    text = kernel_text("whole_step", phases, min_groups=8)
    waits = re.findall(r"target \+= (groups|min\(.+?\)), (.+?), lid", text)
    # Five times 32 work-items are three work-groups of 64.
    assert waits == [("groups", "1"), ("groups", "1"), ("min(groups, 10)", "first < 10")]
    turned = re.findall(r"place = \(first \+ groups - (\d+) % groups\) % groups", text)
    assert turned == ["3", "7"]
    assert text.count("if (first < ") == 2
    assert text.count("if (place < ") == 1


def _read(start: int, size: int, base: Base = Base.CONSTANTS) -> ColdRead:
    return ColdRead(base, start, start + size)
