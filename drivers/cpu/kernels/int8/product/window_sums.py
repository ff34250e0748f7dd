"""Sums the inputs of each window, as weights with a zero point require.

See `QuantizedWeights.sums`. A subroutine sums a line of windows; it takes sizes as arguments and is
shared by many kernels.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from msgspec import Struct

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, opaque
from neurald.drivers.cpu.kernels.common.function import subroutine_of
from neurald.drivers.cpu.kernels.int8.packing.panels import FACTOR_OFFSET
from neurald.drivers.cpu.kernels.int8.plan import ProductPlan
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES, Scheme
from neurald.drivers.cpu.target.routine import Subroutine

#: Addresses of the first window, its sum and the factor; number and distance of windows; then
#: number and distance of a window's rows and runs, and the bytes of a run.
_POINTERS = ("%windows", "%sums", "%factor")
_SIZES = ("%count", "%step", "%rows", "%row_step", "%runs", "%run_step", "%bytes")
_PARAMETERS = (*(("ptr", each) for each in _POINTERS), *(("i64", each) for each in _SIZES))
#: Number of consecutive windows addressed relative to the first one.
_NEIGHBOURS = 4


def write_window_sums(
    code: Instructions, plan: ProductPlan, windows: str, rows: str, *, head: str, sums: str
) -> None:
    """Stores the sum of each window's bytes, times the factor in the packed weights.

    The sums are words, ordered by group and position.

    Args:
        code: receives the instructions.
        plan: the plan of the kernel.
        windows: address of the first window.
        rows: number of output rows.
        head: name of the packed weights' memory.
        sums: destination.
    """
    product, layout = plan.product, plan.layout
    is_single, size = product.rows.taps == plan.runs == 1, plan.scheme.target.vector_bytes
    form = _Form(is_single=is_single, has_whole=plan.run >= size, has_rest=plan.run % size > 0)
    function, factor = _line(plan.scheme.of_steps, form), address(code, head, str(FACTOR_OFFSET))
    row_step = product.rows.stride * layout.row_bytes
    sizes = (
        *(product.rows.taps, product.rows.dilation * layout.row_bytes),
        *(plan.runs, product.columns.dilation * layout.pixel_bytes, plan.run),
    )
    window = [str(each) for each in sizes]
    for group in range(plan.groups):
        first = address(code, windows, str(group * product.depth))
        to = address(code, sums, str(group * plan.positions * WORD_BYTES))
        if plan.width == 1:
            code.call(function, first, to, factor, rows, str(row_step), *window)
            continue
        step = product.columns.stride * layout.pixel_bytes
        with code.loop("0", rows, may_be_empty=True) as loop:
            line = address(code, first, multiple(code, loop.index, row_step))
            slot = address(code, to, multiple(code, loop.index, plan.width * WORD_BYTES))
            code.call(function, line, slot, factor, str(plan.width), str(step), *window)


class _Form(Struct, frozen=True, kw_only=True):
    """Form of a window: whether it has a single run, whole vectors, and a partial vector."""

    is_single: bool
    has_whole: bool
    has_rest: bool


@cache
def _line(scheme: Scheme, form: _Form) -> Subroutine:
    """Returns the subroutine for a line of windows, which processes a window per lane at a time."""
    code = Instructions((*_POINTERS, *_SIZES))
    _Line(code, scheme, form).write()
    return subroutine_of(code, _PARAMETERS)


class _Line:
    """Writes the instructions of the subroutine."""

    def __init__(self, code: Instructions, scheme: Scheme, form: _Form) -> None:
        self._code, self._scheme, self._form = code, scheme, form
        self._single = Vector(code, scheme.target, 1)
        self._vector = Vector(code, scheme.target, scheme.lanes)
        self._kind, self._size = self._vector.type("i32"), scheme.target.vector_bytes

    def write(self) -> None:
        code, v, lanes = self._code, self._single, self._scheme.lanes
        windows, sums, factor = _POINTERS
        count, step = _SIZES[:2]
        factor = code.load(f"load i32, ptr {factor}, align {WORD_BYTES}")
        whole = code.value(f"and i64 {count}, {-lanes}")
        steps = [v.binary("mul", "i64", step, str(each)) for each in range(2, _NEIGHBOURS)]
        for first, last, together in (("0", whole, lanes), (whole, count, 1)):
            with code.loop(first, last, step=together, may_be_empty=True) as loop:
                window = address(code, windows, v.binary("mul", "i64", loop.index, step))
                slot = address(code, sums, multiple(code, loop.index, WORD_BYTES))
                starts = [
                    address(code, window, v.binary("mul", "i64", step, str(each)))
                    for each in range(0, together, _NEIGHBOURS)
                ]
                totals = self._totals(starts, together, ["0", step, *steps])
                if together == 1:
                    total = v.binary("mul", "i32", self._horizontal_sum(totals[0]), factor)
                    code.effect(f"store i32 {total}, ptr {slot}, align 4")
                    continue
                total = self._vector.binary(
                    "mul", "i32", self._transposed_sum(totals), self._vector.splat("i32", factor)
                )
                code.effect(f"store {self._kind} {total}, ptr {slot}, align 4")

    def _totals(self, starts: Sequence[str], count: int, steps: Sequence[str]) -> list[str]:
        """Returns for each window a vector whose lanes sum up to the sum of its bytes.

        Args:
            starts: addresses of every fourth window.
            count: number of windows.
            steps: distances in bytes from those windows to the following ones.
        """
        v = self._single
        rows, row_step, runs, run_step, _ = _SIZES[2:]
        totals = ["zeroinitializer"] * count
        if self._form.is_single:
            self._add_run(starts, "0", steps, totals)
            return totals
        with self._counted(rows, totals) as (down, row_sums), self._counted(runs, row_sums) as (across, sums):
            row, run = v.binary("mul", "i64", down, row_step), v.binary("mul", "i64", across, run_step)
            self._add_run(starts, v.binary("add", "i64", row, run), steps, sums)
        return totals

    def _add_run(self, starts: Sequence[str], run: str, steps: Sequence[str], totals: list[str]) -> None:
        """Adds the bytes of a run to the total of each window."""
        code, v, length = self._code, self._single, _SIZES[-1]
        whole = code.value(f"and i64 {length}, {-self._size}") if self._form.has_whole else "0"
        if self._form.has_whole:
            ones = self._vector.number("i32", 0x01010101)
            with self._counted(whole, totals, step=self._size) as (slot, sums):
                self._add(starts, v.binary("add", "i64", run, slot), steps, ones, sums)
        if self._form.has_rest:
            ones = self._first(v.binary("sub", "i64", length, whole))
            self._add(starts, v.binary("add", "i64", run, whole), steps, ones, totals)

    def _first(self, count: str) -> str:
        """Returns ones for the first bytes of a vector, as i32."""
        v = Vector(self._code, self._scheme.target, self._size)
        count = v.splat("i8", self._code.value(f"trunc i64 {count} to i8"))
        bytes_ = ", ".join(f"i8 {each}" for each in range(self._size))
        is_meant = v.compare("ult", "i8", f"<{bytes_}>", count)
        ones = v.cast("zext", "i1", is_meant, "i8")
        return self._code.value(f"bitcast {v.type('i8')} {ones} to {self._kind}")

    def _add(
        self, starts: Sequence[str], slot: str, steps: Sequence[str], weights: str, totals: list[str]
    ) -> None:
        """Adds the bytes at an offset in each window to its total."""
        code = self._code
        for number, start in enumerate(starts):
            # Hiding the base keeps LLVM from giving each window its own induction variable, for
            # which there are too few registers.
            base = opaque(code, address(code, start, slot))
            for after, step in enumerate(steps):
                each = number * _NEIGHBOURS + after
                if each < len(totals):
                    part = code.fresh(f"load {self._kind}, ptr {address(code, base, step)}, align 1")
                    totals[each] = self._scheme.step(code, totals[each], part, weights)

    @contextmanager
    def _counted(self, count: str, totals: list[str], *, step: int = 1) -> Iterator[tuple[str, list[str]]]:
        """Writes a loop that carries totals, and updates the given list."""
        carried = [(self._kind, each) for each in totals]
        with self._code.loop("0", count, carried, step=step) as loop:
            sums = list(loop.carried)
            yield loop.index, sums
            loop.results = list(sums)
        totals[:] = loop.results

    def _horizontal_sum(self, total: str) -> str:
        """Returns the sum of all lanes."""
        name = f"@llvm.vector.reduce.add.v{self._scheme.lanes}i32"
        self._code.declarations.add(f"declare i32 {name}({self._kind})")
        return self._code.value(f"call i32 {name}({self._kind} {total})")

    def _transposed_sum(self, totals: Sequence[str]) -> str:
        """Returns the horizontal sums of as many vectors as lanes, by pairwise addition."""
        code, lanes, kind = self._code, self._scheme.lanes, self._kind
        parts = list(totals)
        while len(parts) > 1:
            joined = []
            for first, second in zip(parts[::2], parts[1::2], strict=True):
                halves = []
                for parity in (0, 1):
                    picked = ", ".join(f"i32 {2 * lane + parity}" for lane in range(lanes))
                    halves.append(
                        code.fresh(
                            f"shufflevector {kind} {first}, {kind} {second}, <{lanes} x i32> <{picked}>"
                        )
                    )
                joined.append(code.fresh(f"add {kind} {halves[0]}, {halves[1]}"))
            parts = joined
        return parts[0]
