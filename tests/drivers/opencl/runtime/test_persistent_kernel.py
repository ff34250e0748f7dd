"""A step as one persistent kernel: where it needs grid barriers, and that it computes the same as
its phases.
"""

import numpy as np
import pyopencl as cl
import pytest
from support.compiler.contractions import Cases
from support.opencl.sources import Bench, opencl_facts

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.dialect import functions_for, memory_type
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.program_text import HEAD, function_text
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.device_facts import DeviceKind
from neurald.drivers.opencl.runtime.persistent_kernel import (
    ABORTED,
    SYNC_BYTES,
    MemoryRange,
    Phase,
    barriers,
    called_functions,
    grid_barrier_text,
    is_supported,
    kernel_text,
    local_size,
    resident_groups,
)
from neurald.hal.records import replace

FACTS = opencl_facts()


def _phase(written: tuple[int, int], *read: tuple[int, int] | None) -> Phase:
    values = tuple(Value((1,), Scalar.INT8) for _ in range(1 + len(read)))
    ranges = [
        None if each is None else MemoryRange(base="arena", start=each[0], stop=each[1])
        for each in (written, *read)
    ]
    return Phase(
        source=Source(text="", arguments=values, groups=1, local_size=64),
        pointers=("0",) * len(values),
        ranges=tuple(ranges),
        status="0",
    )


def test_a_barrier_precedes_reads_of_earlier_outputs() -> None:
    phases = [_phase((0, 8), None), _phase((8, 16), (0, 8)), _phase((16, 24), (0, 8))]
    assert barriers(phases) == (False, True, False)


def test_a_barrier_precedes_reuse_of_memory() -> None:
    """A phase must not overwrite what an earlier phase may still read."""
    phases = [_phase((8, 16), (0, 8)), _phase((0, 4), (24, 32)), _phase((32, 40), (24, 32))]
    assert barriers(phases) == (False, True, False)


def test_a_barrier_covers_all_earlier_phases() -> None:
    phases = [_phase((0, 8)), _phase((8, 16)), _phase((16, 24), (0, 8)), _phase((24, 32), (8, 16))]
    assert barriers(phases) == (False, False, True, False)


def test_phases_need_the_same_work_group_size() -> None:
    plain = Source(text="", arguments=(), groups=1, local_size=64)
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


@pytest.mark.parametrize("has_barriers", [False, True])
@pytest.mark.skipif(FACTS is None, reason="no OpenCL device")
def test_the_kernel_computes_the_same_as_its_phases(has_barriers: bool) -> None:
    """With a single work-group, which is resident on every device."""
    assert FACTS is not None
    bench = Bench(FACTS.handle)
    cases = [Cases(seed).depthwise(Scalar.FLOAT32) for seed in (1, 2)]
    cases.append(
        Cases(3).convolution(Scalar.FLOAT32) if has_barriers else Cases(3).matrix_product(Scalar.INT8, rows=2)
    )
    facts = replace(FACTS, kind=DeviceKind.GPU, is_nvidia=False) if has_barriers else FACTS
    first = MemoryRange(base="all", start=0, stop=1) if has_barriers else None
    phases: list[Phase] = []
    parameters: list[str] = []
    buffers: list[cl.Buffer] = []
    outputs = []
    for case in cases:
        source = candidates(case.kernel, facts, relaxed=False)[0]
        pointers = []
        for position, value in enumerate(source.arguments):
            name = f"p{len(buffers)}"
            pointers.append(name)
            parameters.append(f"__global {'const ' if position else ''}{memory_type(value.type)} *{name}")
            content = np.zeros(value.shape, value.type.dtype) if value.constant is None else value.constant
            buffers.append(bench.buffer(case.arrays.get(value, content)))
        outputs.append(buffers[-len(pointers)])
        phases.append(
            Phase(
                source=source,
                pointers=tuple(pointers),
                ranges=(first, *((None,) * (len(pointers) - 1))),
                status=f"(__global int *)(sync + {ABORTED + 1})",
            )
        )
    assert phases[-1].source.waits
    assert barriers(phases) == (False, has_barriers, has_barriers)
    functions = {phase.source.name: function_text(phase.source) for phase in phases}
    own = "\n".join(
        (
            grid_barrier_text(is_nvidia=FACTS.is_nvidia),
            *functions.values(),
            kernel_text("whole_step", ", ".join(parameters), phases),
        )
    )
    program = cl.Program(bench.context, HEAD + functions_for(own) + own).build()
    sync = bench.buffer(np.zeros(SYNC_BYTES // 4, np.uint32))
    kernel = cl.Kernel(program, "whole_step")
    kernel.set_args(*buffers, sync, np.int32(len(phases)))
    items = local_size([phase.source for phase in phases])
    assert items is not None
    for _ in range(2):
        cl.enqueue_nd_range_kernel(bench.queue, kernel, (items,), (items,)).wait()
        left = np.empty(SYNC_BYTES // 4, np.uint32)
        cl.enqueue_copy(bench.queue, left, sync)
        assert not left[ABORTED]
    for case, buffer in zip(cases, outputs, strict=True):
        result = np.empty_like(case.expected)
        cl.enqueue_copy(bench.queue, result, buffer)
        case.assert_equal(result)


def test_phases_share_the_code_of_their_function() -> None:
    assert FACTS is not None
    once, twice = (Source(text=text, arguments=(), groups=1, local_size=64) for text in ("a", "b"))
    sources = [twice, once, twice]
    assert called_functions(sources, replace(FACTS, is_nvidia=True)) == {twice.name}
    assert not called_functions(sources, replace(FACTS, is_nvidia=False))
