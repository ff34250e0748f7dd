"""Scatter: combines rows of updates with rows of the output, one after another.

A work item is a part of the output's rows. A call sets its rows to their initial elements, and then
looks at all destinations for updates of its rows, so that each row receives its updates in order.
"""

from collections.abc import Callable

from neurald.drivers.compiler.ir.algorithm import Scatter
from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.graph import Procedure
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.codegen.epilogue import arguments_of, parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.op_table import constant_text, from_stored, stored, to_stored
from neurald.drivers.cpu.emit.reductions import combine
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Cycles for each update, and for each vector of it.
_UPDATE_CYCLES, _VECTOR_CYCLES = 4.0, 2.0
#: Cycles for each destination that a work item examines among those of others, which the processor
#: cannot predict.
_LOOK_CYCLES = 3.0
#: Minimum cycles of a work item, each of which looks at all destinations.
_MIN_ITEM_CYCLES = 50_000.0
#: Number of vectors of a row that are written out instead of looped over.
_MAX_UNROLLED = 4

#: Writes instructions for the elements from an offset, one for each lane.
_Write = Callable[[Vector, str], None]


def routine(kernel: Kernel, node: Procedure, algorithm: Scatter, target: Target) -> Routine:
    """Returns the routine of a kernel.

    Args:
        kernel: its output is not empty.
        node: its procedure.
        algorithm: the algorithm of the procedure.
        target: the target of the code.
    """
    rows, width = node.output.shape
    count, lanes = node.inputs[0].count, target.lanes(node.output.type.size_bytes)
    looks, updates = count * _LOOK_CYCLES, count * (_UPDATE_CYCLES + _VECTOR_CYCLES * width / lanes)
    items = max(1, min(rows, int(updates / max(_MIN_ITEM_CYCLES, looks))))
    arguments = arguments_of(kernel)
    code = Instructions(parameter_names(arguments))
    _ScatterWriter(kernel, node, algorithm, target, code).write(items)
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=items,
        # One call for all work items examines each destination once.
        cost_ns=cost_ns(updates, arguments),
        declarations=frozenset(code.declarations),
        label=f"{count} rows scattered",
        operations=kernel.operations,
        may_read_nothing=True,
    )


class _ScatterWriter:
    def __init__(
        self, kernel: Kernel, node: Procedure, algorithm: Scatter, target: Target, code: Instructions
    ) -> None:
        self._algorithm, self._target, self._code = algorithm, target, code
        self._rows, self._width = node.output.shape
        self._kind, self._count = node.output.type, node.inputs[0].count
        self._index = stored(node.inputs[0].type)
        self._lanes = target.lanes(self._kind.size_bytes)
        pointers = pointer_names(arguments_of(kernel))
        self._output = pointers[kernel.output]
        self._destinations, self._updates, *base = (pointers[value] for value in node.inputs)
        self._base = base[0] if base else None

    def write(self, items: int) -> None:
        """Writes the instructions for the range of work items."""
        code = self._code
        first, last = "0", str(self._rows)
        if items > 1:
            first, last = (
                code.value(f"udiv i64 {multiple(code, bound, self._rows)}, {items}")
                for bound in ("%begin", "%end")
            )
        with code.when(code.value("icmp slt i64 %begin, %end")):
            self._begin(first, last)
            # Whether there are updates need not be known.
            if self._width and (isinstance(self._count, Extent) or self._count):
                self._scatter(first, last)

    def _begin(self, first: str, last: str) -> None:
        """Sets rows to their initial elements."""

        def write(v: Vector, index: str) -> None:
            if self._base is not None:
                self._store(v, index, self._load(v, self._base, index))
                return
            text = constant_text(v, self._algorithm.initial, self._kind, self._computed)
            self._store(v, index, to_stored(v, self._kind, text))

        code = self._code
        begin, end = (multiple(code, bound, self._width) for bound in (first, last))
        length = code.value(f"sub i64 {end}, {begin}")
        whole = total(code, begin, code.value(f"and i64 {length}, {-self._lanes}"))
        with code.loop(begin, whole, step=self._lanes, may_be_empty=True) as loop:
            write(Vector(code, self._target, self._lanes), loop.index)
        with code.loop(whole, end, may_be_empty=True) as loop:
            write(Vector(code, self._target, 1), loop.index)

    def _scatter(self, first: str, last: str) -> None:
        """Combines all updates of a range of rows."""
        code = self._code
        length = code.value(f"sub i64 {last}, {first}")
        with code.loop("0", str(self._count), may_be_empty=isinstance(self._count, Extent)) as loop:
            at = code.fresh(f"getelementptr {self._index}, ptr {self._destinations}, i64 {loop.index}")
            row = code.fresh(f"load {self._index}, ptr {at}")
            if self._index != "i64":
                row = code.fresh(f"sext {self._index} {row} to i64")
            offset = code.fresh(f"sub i64 {row}, {first}")
            # An unsigned comparison, so that negative rows are outside too.
            with code.when(code.fresh(f"icmp ult i64 {offset}, {length}")):
                source, target = (multiple(code, each, self._width) for each in (loop.index, row))
                self._each_of_row(lambda v, index: self._update(v, source, target, index))

    def _each_of_row(self, write: _Write) -> None:
        """Writes instructions for all elements of a row, in vectors of decreasing length."""
        code, lanes = self._code, self._lanes
        done, whole = 0, self._width // self._lanes * self._lanes
        if isinstance(self._width, Extent):
            with code.loop("0", str(whole), step=lanes, may_be_empty=True) as loop:
                write(Vector(code, self._target, lanes), loop.index)
            with code.loop(str(whole), str(self._width), may_be_empty=True) as loop:
                write(Vector(code, self._target, 1), loop.index)
            return
        if whole > _MAX_UNROLLED * lanes:
            with code.loop("0", str(whole), step=lanes) as loop:
                write(Vector(code, self._target, lanes), loop.index)
            done = whole
        while done < self._width:
            while lanes > self._width - done:
                lanes //= 2
            write(Vector(code, self._target, lanes), str(done))
            done += lanes

    def _update(self, v: Vector, source: str, target: str, index: str) -> None:
        code = self._code
        old, new = total(code, target, index), total(code, source, index)
        element, how = self._load(v, self._updates, new), self._algorithm.reduction
        if how is not None:
            present, update = (
                from_stored(v, self._kind, each) for each in (self._load(v, self._output, old), element)
            )
            combined = combine(v, how, self._kind, self._computed, present, update)
            element = to_stored(v, self._kind, combined)
        self._store(v, old, element)

    @property
    def _computed(self) -> str:
        """The LLVM type that computes with an element."""
        if self._kind is Scalar.BOOL:
            return "i1"
        return "float" if self._kind is Scalar.FLOAT16 else stored(self._kind)

    def _load(self, v: Vector, pointer: str, index: str) -> str:
        at = address(self._code, pointer, multiple(self._code, index, self._kind.size_bytes))
        return self._code.fresh(f"load {v.type(stored(self._kind))}, ptr {at}, align {self._kind.size_bytes}")

    def _store(self, v: Vector, index: str, value: str) -> None:
        at = address(self._code, self._output, multiple(self._code, index, self._kind.size_bytes))
        kind = v.type(stored(self._kind))
        self._code.effect(f"store {kind} {value}, ptr {at}, align {self._kind.size_bytes}")
