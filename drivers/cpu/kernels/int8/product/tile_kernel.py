"""Micro-kernel of quantised products with tile registers (AMX).

Tiles of inputs have a row for each position, and words of its window in that row. The positions of
a tile are at equal distances. If it spans several rows of an image, those between the end of a row
and the beginning of the next one are computed too, and ignored. Tiles of weights
are read in place from a panel, which has a row of vectors for each word. Sums are tiles that begin
with the panel's initial sums, and are stored to memory at the end, since other instructions cannot
read tiles.
"""

from neurald.drivers.compiler.ir.extents.extent import Extent, is_one
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common import tile_registers
from neurald.drivers.cpu.kernels.common.addressing import address, multiple
from neurald.drivers.cpu.kernels.int8.plan import ProductPlan
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES
from neurald.drivers.cpu.target.routine import NAME

#: Name and parameters of the function that computes the sums of a tile.
_FUNCTION = f"@{NAME}.tiles"
_PARAMETERS = ("%source", "%panel", "%totals")


class TileMicroKernel:
    """Writes the accumulation of a group of tiles.

    Args:
        plan: the plan of the product, whose scheme has tiles.
        rows: number of rows of epilogue constants in a panel.
    """

    def __init__(self, plan: ProductPlan, *, rows: int) -> None:
        self._plan, self._product = plan, plan.product
        self._line = plan.vectors * plan.scheme.target.vector_bytes
        self._head = (1 + rows) * self._line
        count, vectors = plan.position_tiles, plan.vectors
        self._sums = [[row * vectors + vector for vector in range(vectors)] for row in range(count)]
        self._weights = [count * vectors + vector for vector in range(vectors)]
        left = range((count + 1) * vectors, tile_registers.REGISTERS)
        #: Those of inputs take turns if there are fewer than tiles of positions.
        self._inputs = [left[row % len(left)] for row in range(count)]
        self._firsts = plan.first_positions
        #: Names of the open numbers in the function.
        self._parameters: dict[str, str] = {}

    def configure(self, code: Instructions) -> None:
        """Sets the shapes of the tile registers of this thread."""
        words, lanes, positions = self._plan.tile_words, self._plan.scheme.lanes, self._plan.tile_rows
        sums = [each for row in self._sums for each in row]
        shapes = dict.fromkeys(sums, (positions, lanes))
        shapes.update(dict.fromkeys(self._inputs, (positions, words)))
        shapes.update(dict.fromkeys(self._weights, (words, lanes)))
        tile_registers.configure(code, shapes)

    def release(self, code: Instructions) -> None:
        """Frees the tile registers of this thread."""
        tile_registers.release(code)

    def call(self, code: Instructions, source: str, panel: str, totals: str) -> None:
        """Calls a function that stores the sums to memory.

        Args:
            code: receives the instructions.
            source: address of the first window.
            panel: address of the panel.
            totals: destination, aligned to a vector; the sums of a position are contiguous. It gets
                those of `ProductPlan.span` positions.
        """
        opened = [each for each in (self._line_bytes, *self._firsts[1:]) if isinstance(each, Extent)]
        # The inner function does not see extents.
        self._parameters = {each: f"%extent{number}" for number, each in enumerate(map(str, opened))}
        names = tuple(self._parameters.values())
        inner = Instructions((*_PARAMETERS, *names))
        self._write(inner)
        function = f"{_FUNCTION}{len(names)}"
        head = f"define internal void {function}({_typed(_PARAMETERS, names)}) noinline nounwind {{"
        text = "\n".join((head, *inner.lines, "  ret void", "}"))
        # Tiles of rows that are narrow have the same function.
        if text not in code.globals:
            if any(f"{function}(" in each for each in code.globals):
                raise NotImplementedError("two functions with tile registers in a kernel")
            code.globals.append(text)
            code.declarations.update(inner.declarations)
        code.effect(f"call void {function}({_typed((source, panel, totals), tuple(self._parameters))})")

    # The parts of a group of tiles of known size, between which other instructions are written.

    @property
    def steps(self) -> int:
        """Number of steps of a group: tiles of inputs along a window."""
        return self._plan.steps // self._plan.tile_words

    def begin(self, code: Instructions, panel: str) -> None:
        """Loads the initial sums of a group."""
        vector = self._plan.scheme.target.vector_bytes
        for row in self._sums:
            for number, each in enumerate(row):
                # A distance of 0 between the rows repeats the first one.
                tile_registers.load_tile(code, each, address(code, panel, str(number * vector)), 0)

    def step(self, code: Instructions, source: str, panel: str, index: str) -> None:
        """Adds the products of a step; see `call`."""
        plan, product = self._plan, self._product
        words = plan.tile_words
        weights = address(code, panel, str(self._head), multiple(code, index, words * self._line))
        offsets = []
        for count, distance in (
            (plan.run_steps // words, words * WORD_BYTES),
            (plan.runs, product.columns.dilation * plan.layout.pixel_bytes),
            (product.rows.taps, self._line_bytes),
        ):
            if count > 1:
                offsets.append(multiple(code, code.value(f"urem i64 {index}, {count}"), distance))
                index = code.value(f"udiv i64 {index}, {count}")
        self._add(code, address(code, source, *offsets), weights)

    def end(self, code: Instructions, totals: str) -> None:
        """Stores the sums of a group; see `call`."""
        vector = self._plan.scheme.target.vector_bytes
        for row, first in zip(self._sums, self._firsts, strict=True):
            for number, each in enumerate(row):
                at = address(code, totals, self._times(code, str(self._line), first), str(number * vector))
                tile_registers.store_tile(code, each, at, self._line)

    def _known(self, number: int) -> str:
        """Returns a number as text, which is a parameter's name if it is open."""
        return self._parameters[str(number)] if isinstance(number, Extent) else str(number)

    def _write(self, code: Instructions) -> None:
        plan, product = self._plan, self._product
        source, panel, totals = _PARAMETERS
        self.begin(code, panel)
        weights = address(code, panel, str(self._head))
        with code.loop("0", str(product.rows.taps)) as rows:
            line = address(code, source, self._times(code, rows.index, self._line_bytes))
            panel_line = address(
                code, weights, multiple(code, rows.index, plan.runs * plan.run_steps * self._line)
            )
            with code.loop("0", str(plan.runs)) as runs:
                step = product.columns.dilation * plan.layout.pixel_bytes
                run = address(code, line, multiple(code, runs.index, step))
                panel_run = address(code, panel_line, multiple(code, runs.index, plan.run_steps * self._line))
                with code.loop("0", str(plan.run_steps), step=plan.tile_words) as words:
                    at = address(code, run, multiple(code, words.index, WORD_BYTES))
                    self._add(code, at, address(code, panel_run, multiple(code, words.index, self._line)))
        self.end(code, totals)

    def _add(self, code: Instructions, source: str, weights: str) -> None:
        """Adds the products of a tile's words."""
        vector = self._plan.scheme.target.vector_bytes
        multiply = "tdpbssd" if self._plan.is_signed else "tdpbusd"
        for number, each in enumerate(self._weights):
            tile_registers.load_tile(code, each, address(code, weights, str(number * vector)), self._line)
        for inputs, sums, first in zip(self._inputs, self._sums, self._firsts, strict=True):
            at = address(code, source, self._times(code, str(self._distance), first))
            tile_registers.load_tile(code, inputs, at, self._distance)
            for each, factors in zip(sums, self._weights, strict=True):
                tile_registers.multiply_tiles(code, multiply, each, inputs, factors)

    def _times(self, code: Instructions, name: str, number: int) -> str:
        """Multiplies a name or number by a number that may be open."""
        if isinstance(number, Extent):
            return code.value(f"mul i64 {name}, {self._known(number)}")
        return multiple(code, name, number) if name.startswith("%") else str(int(name) * number)

    @property
    def _line_bytes(self) -> int:
        """Distance of the rows of a window in bytes."""
        return self._product.rows.dilation * self._plan.layout.row_bytes

    @property
    def _distance(self) -> int:
        """Distance of neighbouring positions in bytes."""
        plan, product = self._plan, self._product
        if is_one(plan.width):
            return product.rows.stride * plan.layout.row_bytes
        return product.columns.stride * plan.layout.pixel_bytes


def _typed(names: tuple[str, ...], numbers: tuple[str, ...]) -> str:
    """Returns pointers and numbers as a list of parameters or arguments."""
    return ", ".join((*(f"ptr {each}" for each in names), *(f"i64 {each}" for each in numbers)))
