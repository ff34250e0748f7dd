"""Running sums along an axis.

If further axes follow, vectors of neighbours are added one after the other. So are elements of a
row if their order matters. Otherwise, a vector of elements becomes sums of its first ones, in steps
of 1, 2, 4, …, and the sum of all elements before it is added. These sums depend on each other by
one addition only.
"""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.algorithm import RunningSum
from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.graph import Procedure
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.codegen.epilogue import arguments_of, parameter_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Vectors of neighbours that are added at once.
_VECTORS = 4
#: Cycles for an element of a row, and for one beside others.
_SCAN_CYCLES, _ADD_CYCLES = 0.6, 0.3
_FLOATS = {Scalar.FLOAT32: "float", Scalar.FLOAT64: "double"}


def routine(kernel: Kernel, node: Procedure, algorithm: RunningSum, target: Target) -> Routine:
    """Returns the routine of a kernel, whose output is not empty."""
    arguments = arguments_of(kernel)
    code = Instructions(parameter_names(arguments))
    writer = _SumWriter(code, node, algorithm, target)
    outer, length, inner = node.output.shape
    with code.loop("%begin", "%end", may_be_empty=True) as row:
        writer.write(multiple(code, row.index, length * inner * writer.size))
    is_row = not isinstance(inner, Extent) and inner == 1
    cycles = node.output.count * (_SCAN_CYCLES if is_row else _ADD_CYCLES)
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=outer,
        cost_ns=cost_ns(cycles, arguments),
        declarations=frozenset(code.declarations),
        label=f"running sums of {length}",
        operations=kernel.operations,
    )


class _SumWriter:
    """Writes the sums of one row, or of one matrix of rows.

    Args:
        code: receives the instructions.
        node: the procedure.
        algorithm: the algorithm of the procedure.
        target: the target of the code.
    """

    def __init__(self, code: Instructions, node: Procedure, algorithm: RunningSum, target: Target) -> None:
        self._code, self._algorithm = code, algorithm
        _, self._length, self._inner = node.output.shape
        kind = node.output.type
        self.size = kind.size_bytes
        self._lanes = target.lanes(self.size)
        is_float = kind in _FLOATS
        self._type = _FLOATS[kind] if is_float else f"i{8 * self.size}"
        self._add = "fadd" if is_float else "add"
        #: Adding it changes nothing; 0.0 would change -0.0.
        self._identity = "-0.0" if is_float else "0"
        self._zero = "0.0" if is_float else "0"

    def write(self, start: str) -> None:
        """Writes the sums from an offset on, in bytes."""
        if not isinstance(self._inner, Extent) and self._inner == 1:
            self._scan(start)
            return
        widths = [_VECTORS * self._lanes]
        widths += [self._lanes, 1] if isinstance(self._inner, Extent) else []
        begin = 0
        for width in widths:
            count = (self._inner - begin) // width
            if not isinstance(count, Extent) and not count:
                continue
            end = begin + count * width
            with self._code.loop(str(begin), str(end), step=width, may_be_empty=True) as loop:
                column = multiple(self._code, loop.index, self.size)
                self._add_rows(total(self._code, start, column), [width])
            begin = end
        if not isinstance(begin, Extent) and begin < self._inner:
            self._add_rows(total(self._code, start, str(begin * self.size)), self._parts(self._inner - begin))

    def _parts(self, columns: int) -> list[int]:
        """Divides columns into vectors and powers of two."""
        parts = [self._lanes] * (columns // self._lanes)
        width = self._lanes
        while width := width // 2:
            parts += [width] if columns & width else []
        return parts

    def _kind(self, lanes: int) -> str:
        return self._type if lanes == 1 else f"<{lanes} x {self._type}>"

    def _splat(self, number: str, lanes: int) -> str:
        return number if lanes == 1 else f"splat ({self._type} {number})"

    def _first(self, lanes: int) -> str:
        return self._splat(self._zero if self._algorithm.is_exclusive else self._identity, lanes)

    def _load(self, offset: str, lanes: int) -> str:
        at = address(self._code, "%a1", offset)
        return self._code.fresh(f"load {self._kind(lanes)}, ptr {at}, align {self.size}")

    def _store(self, value: str, offset: str, lanes: int) -> None:
        at = address(self._code, "%a0", offset)
        self._code.effect(f"store {self._kind(lanes)} {value}, ptr {at}, align {self.size}")

    def _sum(self, one: str, other: str, lanes: int) -> str:
        return self._code.fresh(f"{self._add} {self._kind(lanes)} {one}, {other}")

    def _place(self, number: str, step: int, *, width: int = 1) -> str:
        """Returns the offset of `width` elements, of which the sum adds `number` before."""
        if self._algorithm.is_reverse:
            number = self._code.value(f"sub i64 {self._length - width}, {number}")
        return multiple(self._code, number, step)

    def _add_rows(self, start: str, widths: Sequence[int]) -> None:
        """Writes the sums of neighbouring columns, of which each vector has this many."""
        code = self._code
        first = [(self._kind(lanes), self._first(lanes)) for lanes in widths]
        with code.loop("0", str(self._length), first, may_be_empty=True) as loop:
            row = total(code, start, self._place(loop.index, self._inner * self.size))
            column = 0
            for before, lanes in zip(loop.carried, widths, strict=True):
                at = total(code, row, str(column * self.size)) if column else row
                after = self._sum(before, self._load(at, lanes), lanes)
                self._store(before if self._algorithm.is_exclusive else after, at, lanes)
                loop.results.append(after)
                column += lanes

    def _scan(self, start: str) -> None:
        code, lanes = self._code, self._lanes
        whole = 0 if self._algorithm.is_ordered else self._length // lanes * lanes
        carry = self._first(1)
        if isinstance(whole, Extent) or whole:
            first = [(self._kind(lanes), self._first(lanes))]
            with code.loop("0", str(whole), first, step=lanes, may_be_empty=True) as loop:
                loop.results = [self._scanned(start, loop.index, loop.carried[0])]
            carry = code.fresh(f"extractelement {self._kind(lanes)} {loop.results[0]}, i64 0")
        with code.loop(str(whole), str(self._length), [(self._type, carry)], may_be_empty=True) as rest:
            at = total(code, start, self._place(rest.index, self.size))
            after = self._sum(rest.carried[0], self._load(at, 1), 1)
            self._store(rest.carried[0] if self._algorithm.is_exclusive else after, at, 1)
            rest.results = [after]

    def _scanned(self, start: str, number: str, before: str) -> str:
        """Writes the sums of a vector; returns the sum of all up to its end, in all lanes."""
        lanes, is_reverse = self._lanes, self._algorithm.is_reverse
        at = total(self._code, start, self._place(number, self.size, width=lanes))
        sums = self._load(at, lanes)
        distance = 1
        while distance < lanes:
            sums = self._sum(sums, self._shifted(sums, distance), lanes)
            distance *= 2
        last = 0 if is_reverse else lanes - 1
        written = self._shifted(sums, 1) if self._algorithm.is_exclusive else sums
        self._store(self._sum(before, written, lanes), at, lanes)
        return self._sum(before, self._shuffled(sums, [last] * lanes), lanes)

    def _shifted(self, vector: str, distance: int) -> str:
        """Moves elements along the sum; the first ones become the identity."""
        lanes, way = self._lanes, -1 if self._algorithm.is_reverse else 1
        sources = [lane - way * distance for lane in range(lanes)]
        return self._shuffled(vector, [each if 0 <= each < lanes else lanes for each in sources])

    def _shuffled(self, vector: str, sources: Sequence[int]) -> str:
        kind, lanes = self._kind(self._lanes), self._lanes
        mask = ", ".join(f"i32 {each}" for each in sources)
        return self._code.fresh(
            f"shufflevector {kind} {vector}, {kind} {self._splat(self._identity, lanes)}, <{lanes} x i32> <{mask}>"
        )
