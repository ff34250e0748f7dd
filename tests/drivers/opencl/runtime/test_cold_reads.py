"""Phases fetch what later ones read from memory."""

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.runtime.cold_reads import ColdRead, cold_reads, fetches
from neurald.drivers.opencl.runtime.phase import Phase


def _read(start: int, size: int, base: Base = Base.CONSTANTS) -> ColdRead:
    return ColdRead(base, start, start + size)


def test_phases_fetch_what_later_phases_read() -> None:
    """Once, in order, and nothing that they read themselves."""
    first, second, third = _read(0, 100), _read(100, 50), _read(10**6, 70, Base.ARENA)
    reads = [(), (first,), (second, first), (), (third,)]
    assert fetches(reads, 0) == [[]] * 5
    assert fetches(reads, 60) == [
        [_read(0, 60)],
        [_read(100, 50), _read(10**6, 10, Base.ARENA)],
        [_read(10**6 + 10, 50, Base.ARENA)],
        [],
        [],
    ]
    assert fetches(reads, 1000) == [[_read(0, 150), third], [], [], [], []]


def test_a_phase_fetches_few_ranges() -> None:
    reads = [(), *((_read(number * 10**6, 10),) for number in range(5))]
    found = fetches(reads, 1000)
    assert [len(each) for each in found] == [2, 2, 1, 0, 0, 0]
    assert [each for part in found for each in part] == [reads[at][0] for at in (1, 2, 3, 4, 5)]


def test_what_a_phase_reads_from_memory() -> None:
    sizes = [1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 10, 1 << 30]
    values = tuple(Value((size,), Scalar.INT8) for size in sizes)
    bases = [Base.ARENA] * 3 + [Base.CONSTANTS] * 3
    places = tuple(BufferLocation(base, 8 * number) for number, base in enumerate(bases))
    phase = Phase(
        source=Source(code=LazyCode.of(""), arguments=values, groups=100, local_size=64),
        locations=places,
        status=0,
    )
    found = cold_reads(phase, {values[2]})
    assert found == (_read(16, 1 << 20, Base.ARENA), _read(24, 1 << 20))
