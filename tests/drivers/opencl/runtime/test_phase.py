"""Grid barriers precede the phases that must wait."""

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.runtime.phase import Phase, barriers


def _phase(written: tuple[int, int], *read: tuple[int, int] | None) -> Phase:
    places = [(0, 1) if each is None else each for each in (written, *read)]
    bases = [Base.CONSTANTS if each is None else Base.ARENA for each in (written, *read)]
    return Phase(
        source=Source(
            code=LazyCode.of(""),
            arguments=tuple(Value((stop - start,), Scalar.INT8) for start, stop in places),
            groups=1,
            local_size=64,
        ),
        locations=tuple(BufferLocation(base, start) for base, (start, _) in zip(bases, places, strict=True)),
        status=0,
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
