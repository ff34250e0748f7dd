"""Positions of elements that are not 0, numbers of distinct elements, and places of keys."""

import math

from neurald.drivers.compiler.ir.algorithm import Distinct, KeySearch, Positions
from neurald.drivers.compiler.ir.graph import Procedure
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.support.kernel_file import kernel_text
from neurald.drivers.cpu.codegen.epilogue import arguments_of, parameters, pointer_names
from neurald.drivers.cpu.kernels.common.function import cost_ns
from neurald.drivers.cpu.target.routine import ALIGNMENT, NAME, Routine

#: Cycles for each element that is examined, and for each that is looked up in the hash table.
_LOOK_CYCLES, _LOOK_UP_CYCLES = 1.5, 15.0
#: Cycles for each key whose order is checked, and for a step of a bisection.
_ORDER_CYCLES, _STEP_CYCLES = 0.2, 1.5
#: Bytes of the keys that are searched for at once.
_SEARCHED_BYTES = 64
#: The exponent bits of floats, which are those of infinity. Greater magnitudes are NaN.
_INFINITY = {Scalar.FLOAT16: 0x7C00, Scalar.FLOAT32: 0x7F80_0000, Scalar.FLOAT64: 0x7FF0_0000_0000_0000}
_PLACE_BYTES = 4
#: Number of elements that are compared with 0 at once.
_LANES = 16


def positions(kernel: Kernel, node: Procedure, _: Positions) -> Routine:
    """Returns the routine that finds the elements that are not 0."""
    (source,), arguments = node.inputs, arguments_of(kernel)
    text = kernel_text(
        __name__,
        "positions.ll",
        KERNEL=NAME,
        PARAMETERS=parameters(arguments),
        COUNT=source.count,
        WHOLE=source.count // _LANES * _LANES,
        LANES=_LANES,
        TYPE=_bits_type(source.type),
        ALIGN=source.type.size_bytes,
        MAGNITUDE=_magnitude(source.type),
    )
    return Routine(
        text=text,
        arguments=arguments,
        work_items=1,
        cost_ns=cost_ns(source.count * _LOOK_CYCLES, arguments),
        declarations=frozenset((f"declare i{_LANES} @llvm.cttz.i{_LANES}(i{_LANES}, i1)",)),
        label=f"positions in {source.count}",
        operations=kernel.operations,
        may_read_nothing=True,
    )


def distinct(kernel: Kernel, node: Procedure, _: Distinct) -> Routine:
    """Returns the routine that numbers the distinct elements."""
    (source,), arguments = node.inputs, arguments_of(kernel)
    kind, bits = source.type, source.type.size_bytes * 8
    # Whole vectors, and for elements of any number more than twice as many places.
    vector = ALIGNMENT // _PLACE_BYTES
    places = (2 * source.count // vector + 1) * vector
    is_float = kind in _INFINITY
    text = kernel_text(
        __name__,
        "distinct.ll",
        KERNEL=NAME,
        PARAMETERS=parameters(arguments),
        COUNT=source.count,
        TYPE=_bits_type(kind),
        NEGATIVE_ZERO=1 << (bits - 1) if is_float else 0,
        MAGNITUDE=_magnitude(kind),
        INFINITY=_INFINITY.get(kind, -1),
        WIDEN=f"%bits = {'add i64 %canonical, 0' if bits == 64 else f'zext i{bits} %canonical to i64'}",
        PLACES=places,
        TABLE_BYTES=places * _PLACE_BYTES,
    )
    return Routine(
        text=text,
        arguments=arguments,
        work_items=1,
        cost_ns=cost_ns(source.count * _LOOK_UP_CYCLES, arguments),
        scratch_bytes=(places + source.count) * _PLACE_BYTES,
        label=f"distinct of {source.count}",
        operations=kernel.operations,
    )


def keys(kernel: Kernel, node: Procedure, _: KeySearch) -> Routine:
    """Returns the routine that finds keys in a row of keys."""
    arguments = arguments_of(kernel)
    names = pointer_names(arguments)
    row, wanted = node.inputs
    size, count = row.type.size_bytes, row.count
    lanes, kind = _SEARCHED_BYTES // size, _bits_type(row.type)
    gather = f"llvm.masked.gather.v{lanes}{kind}.v{lanes}p0"
    mask = f"<{lanes} x i1>"
    text = kernel_text(
        __name__,
        "key_search.ll",
        KERNEL=NAME,
        PARAMETERS=parameters(arguments),
        KEYS=names[row],
        LOOKUPS=names[wanted],
        COUNT=count,
        LAST=count - 1,
        LANES=lanes,
        NUMBERS=f"<{', '.join(f'i64 {number}' for number in range(lanes))}>",
        TYPE=kind,
        ALIGN=size,
        GATHER=gather,
    )
    cycles = count * _ORDER_CYCLES + wanted.count * (1 + math.log2(count)) * _STEP_CYCLES
    return Routine(
        text=text,
        arguments=arguments,
        work_items=kernel.output.count,
        cost_ns=cost_ns(cycles, arguments),
        declarations=frozenset(
            (
                f"declare <{lanes} x {kind}> @{gather}(<{lanes} x ptr>, i32, {mask}, <{lanes} x {kind}>)",
                f"declare <{lanes} x {kind}> @llvm.masked.load.v{lanes}{kind}.p0"
                f"(ptr, i32, {mask}, <{lanes} x {kind}>)",
                f"declare void @llvm.masked.store.v{lanes}i32.p0(<{lanes} x i32>, ptr, i32, {mask})",
            )
        ),
        label=f"{wanted.count} keys found among {count}",
        operations=kernel.operations,
    )


def _bits_type(kind: Scalar) -> str:
    """Returns the LLVM type of an element's bits."""
    return f"i{kind.size_bytes * 8}"


def _magnitude(kind: Scalar) -> int:
    """Returns the bits of an element that are not a float's sign."""
    return (1 << (kind.size_bytes * 8 - 1)) - 1 if kind in _INFINITY else -1
