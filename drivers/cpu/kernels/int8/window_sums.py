"""The sums of the inputs of windows, which weights with a zero point need: see `Weights.sums`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from neurald.drivers.cpu.instructions import Instructions
from neurald.drivers.cpu.kernels.counters import address, multiple
from neurald.drivers.cpu.kernels.int8.panels import FACTOR_OFFSET
from neurald.drivers.cpu.kernels.int8.plan import Plan
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES
from neurald.drivers.cpu.vector import Vector


class WindowSums:
    """Stores the sum of each window's bytes, times what the packed weights say: words, by group and position.

    Args:
        code: where instructions go.
        plan: of the kernel.
        head: the name of the packed weights' memory.
        sums: the name of where to store them.
    """

    def __init__(self, code: Instructions, plan: Plan, *, head: str, sums: str) -> None:
        self._code, self._plan, self._sums, self._scheme = code, plan, sums, plan.scheme
        self._single = Vector(code, plan.scheme.target, 1)
        self._vector = Vector(code, plan.scheme.target, plan.scheme.lanes)
        self._factor = code.load(f"load i32, ptr {address(code, head, str(FACTOR_OFFSET))}, align 4")

    def write(self, windows: str, begin: str, end: str) -> None:
        """The sums of the rows of the output from `begin` to before `end`; the first window begins at `windows`."""
        plan, code, v = self._plan, self._code, self._single
        rows = v.two("sub", "i64", end, begin)
        row_step = plan.product.rows.stride * plan.layout.row_bytes
        for group in range(plan.groups):
            first = address(code, windows, str(group * plan.product.depth))
            sums = address(code, self._sums, str(group * plan.positions * WORD_BYTES))
            if plan.width == 1:
                self._write_line(first, sums, rows, row_step)
                continue
            with code.loop("0", rows, may_be_empty=True) as loop:
                line = address(code, first, multiple(code, loop.index, row_step))
                place = address(code, sums, multiple(code, loop.index, plan.width * WORD_BYTES))
                step = plan.product.columns.stride * plan.layout.pixel_bytes
                self._write_line(line, place, str(plan.width), step)

    def _write_line(self, windows: str, sums: str, count: str, step: int) -> None:
        """Sums of windows that are `step` bytes apart: as many at a time as a vector holds, and the rest one by one."""
        code, v, lanes = self._code, self._single, self._scheme.lanes
        rest = v.two("urem", "i64", count, str(lanes))
        whole = v.two("sub", "i64", count, rest)
        for first, last, together in (("0", whole, lanes), (whole, count, 1)):
            with code.loop(first, last, step=together, may_be_empty=True) as loop:
                window = address(code, windows, multiple(code, loop.index, step))
                place = address(code, sums, multiple(code, loop.index, WORD_BYTES))
                totals = self._window_totals(
                    [address(code, window, str(each * step)) for each in range(together)]
                )
                if together == 1:
                    total = v.two("mul", "i32", self._folded(totals[0]), self._factor)
                    code.effect(f"store i32 {total}, ptr {place}, align 4")
                    continue
                factor = self._vector.splat("i32", self._factor)
                total = self._vector.two("mul", "i32", self._transposed_sum(totals), factor)
                code.effect(f"store {self._vector.type('i32')} {total}, ptr {place}, align 4")

    def _window_totals(self, windows: Sequence[str]) -> list[str]:
        """For each window a vector whose lanes add up to the sum of its bytes."""
        plan, code, kind = self._plan, self._code, self._vector.type("i32")
        rows, columns = plan.product.rows, plan.product.columns
        totals = ["zeroinitializer"] * len(windows)
        with self._counted(rows.taps, kind, totals) as (down, sums):
            row = multiple(code, down, rows.dilation * plan.layout.row_bytes)
            with self._counted(plan.runs, kind, sums) as (across, inner):
                column = multiple(code, across, columns.dilation * plan.layout.pixel_bytes)
                self._add_run([address(code, each, row, column) for each in windows], kind, inner)
            sums[:] = inner
        return sums

    def _add_run(self, runs: Sequence[str], kind: str, totals: list[str]) -> None:
        """Adds the elements of a run to the totals of each window."""
        code, size, length = self._code, self._scheme.target.vector_bytes, self._plan.run
        whole = length // size
        with self._counted(whole, kind, totals) as (part, sums):
            if whole:
                offset = multiple(code, part, size)
                self._add_bytes([address(code, run, offset) for run in runs], sums, size)
        if length % size:
            self._add_bytes([address(code, run, str(whole * size)) for run in runs], sums, length % size)
        totals[:] = sums

    def _add_bytes(self, parts: Sequence[str], totals: list[str], count: int) -> None:
        """Adds the first bytes of a vector to the totals of each window."""
        size, kind = self._scheme.target.vector_bytes, self._vector.type("i32")
        ones = ", ".join(f"i8 {int(lane < count)}" for lane in range(size))
        weights = self._code.value(f"bitcast <{size} x i8> <{ones}> to {kind}")
        for number, pointer in enumerate(parts):
            part = self._code.fresh(f"load {kind}, ptr {pointer}, align 1")
            totals[number] = self._scheme.step(self._code, totals[number], part, weights)

    @contextmanager
    def _counted(self, count: int, kind: str, totals: list[str]) -> Iterator[tuple[str, list[str]]]:
        """A loop that carries totals, which are in the list that it gives, also when it has ended."""
        if count <= 1:
            sums = list(totals)
            yield "0", sums
            return
        with self._code.loop("0", str(count), [(kind, each) for each in totals]) as loop:
            sums = list(loop.carried)
            yield loop.index, sums
            loop.results = list(sums)

    def _folded(self, total: str) -> str:
        """The sum of all lanes."""
        kind, name = self._vector.type("i32"), f"@llvm.vector.reduce.add.v{self._scheme.lanes}i32"
        self._code.declarations.add(f"declare i32 {name}({kind})")
        return self._code.value(f"call i32 {name}({kind} {total})")

    def _transposed_sum(self, totals: Sequence[str]) -> str:
        """The sums of the lanes of as many vectors, each in a lane: neighbours are added until one vector is left."""
        code, lanes, kind = self._code, self._scheme.lanes, self._vector.type("i32")
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
