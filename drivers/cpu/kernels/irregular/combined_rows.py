"""Combines weighted rows of a table, and adds those of one destination in scratch memory."""

from collections.abc import Callable

from neurald.drivers.compiler.ir.algorithm import CombinedRows
from neurald.drivers.compiler.ir.extents.extent import is_zero, may_be_zero
from neurald.drivers.compiler.ir.graph import Procedure
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu.codegen.epilogue import arguments_of, parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.operations.tflite.movement.sparse_embedding import Combiner

#: Cycles for each row, and for each vector of it.
_ROW_CYCLES, _VECTOR_CYCLES = 10.0, 4.0
_FLOAT_BYTES = 4


def routine(kernel: Kernel, node: Procedure, algorithm: CombinedRows, target: Target) -> Routine:
    """Returns the routine of a kernel.

    Args:
        kernel: its output is not empty.
        node: its procedure.
        algorithm: the algorithm of the procedure.
        target: the target of the code.
    """
    arguments = arguments_of(kernel)
    code = Instructions(parameter_names(arguments))
    writer = _RowWriter(kernel, node, algorithm, target, code)
    with code.when(code.value("icmp slt i64 %begin, %end")):
        writer.write()
    count, width = node.inputs[0].count, node.output.shape[1]
    cycles = count * (_ROW_CYCLES + width / target.lanes(_FLOAT_BYTES) * _VECTOR_CYCLES)
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=1,
        cost_ns=cost_ns(cycles, arguments),
        declarations=frozenset(code.declarations),
        scratch_bytes=width * _FLOAT_BYTES,
        label=f"{count} rows combined",
        operations=kernel.operations,
    )


class _RowWriter:
    def __init__(
        self, kernel: Kernel, node: Procedure, algorithm: CombinedRows, target: Target, code: Instructions
    ) -> None:
        self._combiner, self._target, self._code = algorithm.combiner, target, code
        self._count, (self._rows, self._width) = node.inputs[0].count, node.output.shape
        self._length = node.inputs[3].shape[0]
        pointers = pointer_names(arguments_of(kernel))
        self._output = pointers[kernel.output]
        self._destinations, self._lookups, self._weights, self._table = (
            pointers[value] for value in node.inputs
        )

    def write(self) -> None:
        """Writes the instructions."""
        code = self._code

        def clear(v: Vector, at: str) -> None:
            self._store(v, self._output, at, v.number("float", 0.0))

        self._each(self._rows * self._width, clear)
        if is_zero(self._count) or is_zero(self._length):
            return
        with code.when(code.value(f"icmp sgt i64 {self._count}, 0")):
            self._combine()

    def _combine(self) -> None:
        """Adds all rows; there is at least one."""
        code = self._code
        # The destination before the first one differs from it.
        first = code.value(f"load i32, ptr {self._destinations}")
        carried = [("i32", code.value(f"xor i32 {first}, -1")), ("float", "0.0")]
        with code.loop("0", str(self._count), carried) as loop:
            previous, before = loop.carried
            destination = self._load_at("i32", self._destinations, loop.index)
            weight = self._load_at("float", self._weights, loop.index)
            begins = code.fresh(f"icmp ne i32 {destination}, {previous}")
            divisor = code.fresh(f"select i1 {begins}, float 0.0, float {before}")
            term = weight
            if self._combiner is Combiner.SQRTN:
                term = code.fresh(f"fmul float {weight}, {weight}")
            divisor = code.fresh(f"fadd float {divisor}, {term}")
            self._add_row(self._load_at("i32", self._lookups, loop.index), weight, begins)
            with code.when(self._ends(loop.index, destination)):
                self._finish(destination, divisor)
            loop.results = [destination, divisor]

    def _ends(self, index: str, destination: str) -> str:
        """Returns an i1 that is true for the last row before another destination."""
        code, last = self._code, str(self._count - 1)
        is_last = code.fresh(f"icmp eq i64 {index}, {last}")
        following = code.fresh(f"add i64 {index}, 1")
        # The last row is read again instead of one beyond it.
        at = code.fresh(f"select i1 {is_last}, i64 {last}, i64 {following}")
        differs = code.fresh(f"icmp ne i32 {self._load_at('i32', self._destinations, at)}, {destination}")
        return code.fresh(f"or i1 {is_last}, {differs}")

    def _add_row(self, lookup: str, weight: str, begins: str) -> None:
        """Adds a weighted row to the sum; indices outside the table give its first or last."""
        code = self._code
        code.declarations.update(f"declare i64 @llvm.{name}.i64(i64, i64)" for name in ("smin", "smax"))
        wide = code.fresh(f"sext i32 {lookup} to i64")
        inside = code.fresh(f"call i64 @llvm.smin.i64(i64 {wide}, i64 {self._length - 1})")
        inside = code.fresh(f"call i64 @llvm.smax.i64(i64 {inside}, i64 0)")
        start = code.fresh(f"mul i64 {inside}, {self._width}")
        row = code.fresh(f"getelementptr float, ptr {self._table}, i64 {start}")

        def add(v: Vector, at: str) -> None:
            kind = v.type("float")
            factor = v.splat("float", weight)
            product = code.fresh(f"fmul {kind} {self._load(v, row, at)}, {factor}")
            known = self._load(v, "%scratch", at)
            sums = code.fresh(f"select i1 {begins}, {kind} {v.splat('float', '0.0')}, {kind} {known}")
            self._store(v, "%scratch", at, code.fresh(f"fadd {kind} {sums}, {product}"))

        self._each(self._width, add)

    def _finish(self, destination: str, divisor: str) -> None:
        """Adds the sum to its destination and divides it; other destinations are ignored."""
        code = self._code
        wide = code.fresh(f"sext i32 {destination} to i64")
        # An unsigned comparison, so that negative destinations are outside too.
        with code.when(code.fresh(f"icmp ult i64 {wide}, {self._rows}")):
            start = code.fresh(f"mul i64 {wide}, {self._width}")
            row = code.fresh(f"getelementptr float, ptr {self._output}, i64 {start}")
            if self._combiner is Combiner.SQRTN:
                code.declarations.add("declare float @llvm.sqrt.f32(float)")
                divisor = code.fresh(f"call float @llvm.sqrt.f32(float {divisor})")

            def add(v: Vector, at: str) -> None:
                kind = v.type("float")
                total = code.fresh(f"fadd {kind} {self._load(v, row, at)}, {self._load(v, '%scratch', at)}")
                if self._combiner is not Combiner.SUM:
                    total = code.fresh(f"fdiv {kind} {total}, {v.splat('float', divisor)}")
                self._store(v, row, at, total)

            self._each(self._width, add)

    def _each(self, count: int, write: Callable[[Vector, str], None]) -> None:
        """Writes instructions for elements, in vectors and then one by one."""
        code, lanes = self._code, self._target.lanes(_FLOAT_BYTES)
        whole = count // lanes * lanes
        if not is_zero(whole):
            with code.loop("0", str(whole), step=lanes, may_be_empty=may_be_zero(whole)) as loop:
                write(Vector(code, self._target, lanes), loop.index)
        left = count - whole
        if not is_zero(left):
            with code.loop(str(whole), str(count), may_be_empty=may_be_zero(left)) as loop:
                write(Vector(code, self._target, 1), loop.index)

    def _load_at(self, kind: str, pointer: str, index: str) -> str:
        at = self._code.fresh(f"getelementptr {kind}, ptr {pointer}, i64 {index}")
        return self._code.fresh(f"load {kind}, ptr {at}")

    def _load(self, v: Vector, pointer: str, index: str) -> str:
        at = self._code.fresh(f"getelementptr float, ptr {pointer}, i64 {index}")
        return self._code.fresh(f"load {v.type('float')}, ptr {at}, align {_FLOAT_BYTES}")

    def _store(self, v: Vector, pointer: str, index: str, value: str) -> None:
        at = self._code.fresh(f"getelementptr float, ptr {pointer}, i64 {index}")
        self._code.effect(f"store {v.type('float')} {value}, ptr {at}, align {_FLOAT_BYTES}")
