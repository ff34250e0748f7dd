"""Divides the inputs of a block of units into bfloat16 parts, in scratch memory.

A number is the sum of its parts: the nearest bfloat16 number, that of the difference, and what is
left. Infinities, NaN and numbers that would be rounded to infinity have only the first part.
"""

from collections.abc import Callable, Sequence

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.window import WindowDimension
from neurald.drivers.cpu.kernels.gemm.split.plan import HALF_BYTES, LANES, PARTS, TILE_TERMS, SplitPlan
from neurald.drivers.cpu.target.routine import NAME
from neurald.drivers.cpu.target.target import Target

_FLOAT_BYTES = Scalar.FLOAT32.size_bytes
#: Bits of the sign and those that are rounded, half a unit of a bfloat16 number, and numbers from
#: which on they are not rounded.
_SIGN, _UPPER, _HALF_UNIT, _LIMIT = 0x80000000, 0xFFFF0000, 0x8000, 0x7F7F8000
_PARTS_FUNCTION, _ZEROS_FUNCTION = f"@{NAME}.parts", f"@{NAME}.zeros"


class PartWriter:
    """Writes the division of a block's inputs.

    Args:
        code: receives the instructions.
        target: the target of the code.
        plan: the plan of the product.
        source: name of the input's memory.
    """

    def __init__(self, code: Instructions, target: Target, plan: SplitPlan, source: str) -> None:
        self._code, self._target, self._plan, self._source = code, target, plan, source
        self._single = Vector(code, target, 1)
        code.globals += [self._parts_function(), self._zeros_function()]

    def write(self, image: str, begin: str, end: str) -> None:
        """Divides the inputs of an image's output rows from `begin` to before `end`."""
        plan = self._plan
        if plan.gathered is not None:
            self._write_gathered(plan.gathered, begin, end)
        elif plan.rows.taps == plan.columns.taps == 1:
            self._write_positions(begin, end)
        else:
            self._write_rows(image, begin, end)

    def _write_positions(self, begin: str, end: str) -> None:
        """Divides adjacent pixels."""
        code, depth = self._code, self._plan.product.depth
        count = self._single.binary("sub", "i64", end, begin)
        if self._plan.pixel == depth:
            self._divide(multiple(code, begin, depth), "0", multiple(code, count, depth))
            return
        with code.loop("0", count, may_be_empty=True) as loop:
            pixel = total(code, begin, loop.index)
            self._divide(
                multiple(code, pixel, depth), multiple(code, loop.index, self._plan.pixel), str(depth)
            )

    def _write_gathered(self, sides: tuple[WindowDimension, WindowDimension], begin: str, end: str) -> None:
        """Divides the pixels of single-pixel windows that are not adjacent."""
        code, v, plan = self._code, self._single, self._plan
        rows, columns = sides
        with code.loop(begin, end, may_be_empty=True) as loop:
            line, column = (
                v.binary(each, "i64", loop.index, str(columns.positions)) for each in ("udiv", "urem")
            )
            image, row = (v.binary(each, "i64", line, str(rows.positions)) for each in ("udiv", "urem"))
            line = total(code, multiple(code, image, rows.length), multiple(code, row, rows.stride))
            pixel = total(code, multiple(code, line, columns.length), multiple(code, column, columns.stride))
            to = multiple(code, v.binary("sub", "i64", loop.index, begin), plan.pixel)
            self._divide(multiple(code, pixel, plan.product.depth), to, str(plan.product.depth))

    def _write_rows(self, image: str, begin: str, end: str) -> None:
        """Divides rows of pixels, with zeros around the image."""
        code, v, plan = self._code, self._single, self._plan
        rows, columns, depth = plan.rows, plan.columns, plan.product.depth
        start = total(code, multiple(code, begin, rows.stride), str(-rows.padding_before))
        last = multiple(code, total(code, end, "-1"), rows.stride)
        stop = total(code, last, str((rows.taps - 1) * rows.dilation + 1 - rows.padding_before))
        row = plan.row_pixels * plan.pixel
        left = columns.padding_before * plan.pixel
        right = left + columns.length * plan.pixel
        with code.loop(start, stop, may_be_empty=True) as loop:
            number = v.binary("sub", "i64", loop.index, start)
            slot = total(
                code,
                v.binary("udiv", "i64", number, str(rows.stride)),
                multiple(code, v.binary("urem", "i64", number, str(rows.stride)), plan.row_slots),
            )
            to = multiple(code, slot, row)
            is_inside = code.fresh(f"icmp ult i64 {loop.index}, {rows.length}")
            if not rows.is_inside:
                with code.when(code.fresh(f"xor i1 {is_inside}, true")):
                    self._fill(to, row)
            with code.when(is_inside):
                line = total(code, multiple(code, image, rows.length), loop.index)
                source = multiple(code, line, columns.length * depth)
                self._fill(to, left)
                self._fill(total(code, to, str(right)), row - right)
                to = total(code, to, str(left))
                self._divide_row(source, to)

    def _divide_row(self, source: str, to: str) -> None:
        """Divides a row of the image."""
        code, plan, depth = self._code, self._plan, self._plan.product.depth
        if plan.pixel == depth:
            self._divide(source, to, str(plan.columns.length * depth))
            return
        with code.loop("0", str(plan.columns.length)) as loop:
            self._divide(
                total(code, source, multiple(code, loop.index, depth)),
                total(code, to, multiple(code, loop.index, plan.pixel)),
                str(depth),
            )

    def _divide(self, source: str, to: str, count: str) -> None:
        """Divides `count` elements from an offset of the input to an offset of the parts."""
        code = self._code
        first = address(code, self._source, multiple(code, source, _FLOAT_BYTES))
        at = address(code, "%scratch", multiple(code, to, HALF_BYTES))
        code.effect(f"call void {_PARTS_FUNCTION}(ptr {first}, ptr {at}, i64 {count})")

    def _fill(self, to: str, count: int) -> None:
        """Fills elements of the parts with zeros."""
        if count:
            at = address(self._code, "%scratch", multiple(self._code, to, HALF_BYTES))
            self._code.effect(f"call void {_ZEROS_FUNCTION}(ptr {at}, i64 {count})")

    # Functions, which work on as many elements at once as a tile's row has.

    def _function(self, name: str, parameters: Sequence[tuple[str, str]], code: Instructions) -> str:
        """Returns the text of a function."""
        self._code.declarations |= code.declarations
        typed = ", ".join(
            f"{kind} noalias {each}" if kind == "ptr" else f"{kind} {each}" for kind, each in parameters
        )
        head = f"define internal void {name}({typed}) noinline nounwind {{"
        return "\n".join((head, *code.lines, "  ret void", "}"))

    def _parts_function(self) -> str:
        """Returns the function that divides contiguous elements."""
        parameters = (("ptr", "%source"), ("ptr", "%to"), ("i64", "%count"))
        code = Instructions(name for _, name in parameters)
        v = Vector(code, self._target, LANES)
        kind = v.type("float")

        def write(first: str, masks: Sequence[str] | None) -> None:
            at = [
                address(
                    code, "%source", multiple(code, first, _FLOAT_BYTES), str(each * LANES * _FLOAT_BYTES)
                )
                for each in range(2)
            ]
            if masks is None:
                loaded = [code.fresh(f"load {kind}, ptr {each}, align {_FLOAT_BYTES}") for each in at]
            else:
                name = f"@llvm.masked.load.v{LANES}f32.p0"
                code.declarations.add(f"declare {kind} {name}(ptr, i32, <{LANES} x i1>, {kind})")
                loaded = [
                    code.fresh(
                        f"call {kind} {name}(ptr {each}, i32 {_FLOAT_BYTES}, "
                        f"<{LANES} x i1> {mask}, {kind} zeroinitializer)"
                    )
                    for each, mask in zip(at, masks, strict=True)
                ]
            to = address(code, "%to", multiple(code, first, HALF_BYTES))
            halves = [self._divided(v, each) for each in loaded]
            for number, (low, high) in enumerate(zip(*halves, strict=True)):
                place = address(code, to, str(number * self._plan.part_bytes))
                self._store(code, self._joined(v, low, high), place, masks)

        self._write_all(code, write)
        return self._function(_PARTS_FUNCTION, parameters, code)

    def _zeros_function(self) -> str:
        """Returns the function that fills contiguous elements of all parts with zeros."""
        parameters = (("ptr", "%to"), ("i64", "%count"))
        code = Instructions(name for _, name in parameters)

        def write(first: str, masks: Sequence[str] | None) -> None:
            to = address(code, "%to", multiple(code, first, HALF_BYTES))
            for number in range(PARTS):
                place = address(code, to, str(number * self._plan.part_bytes))
                self._store(code, "zeroinitializer", place, masks)

        self._write_all(code, write)
        return self._function(_ZEROS_FUNCTION, parameters, code)

    def _write_all(self, code: Instructions, write: Callable[[str, Sequence[str] | None], None]) -> None:
        """Writes the code for `%count` elements.

        Args:
            code: receives it.
            write: writes the code for as many elements as a tile's row has, from one on; the masks
                say which of them exist, None stands for all.
        """
        whole = code.value(f"and i64 %count, {-TILE_TERMS}")
        with code.loop("0", whole, step=TILE_TERMS, may_be_empty=True) as loop:
            write(loop.index, None)
        if not self._plan.is_paired:
            left = code.value(f"sub i64 %count, {whole}")
            with code.when(code.value(f"icmp ne i64 {left}, 0")):
                write(whole, [self._below(code, left, each * LANES, LANES) for each in range(2)])

    def _below(self, code: Instructions, count: str, first: int, lanes: int) -> str:
        """Returns an i1 for each lane that is true if its number is less than a count."""
        v = Vector(code, self._target, lanes)
        narrow = code.value(f"trunc i64 {count} to i32")
        return v.compare("slt", "i32", v.numbers("i32", range(first, first + lanes)), v.splat("i32", narrow))

    def _store(self, code: Instructions, halves: str, place: str, masks: Sequence[str] | None) -> None:
        """Stores a vector of halves, or those of its elements that exist."""
        kind = f"<{TILE_TERMS} x i16>"
        if masks is None:
            code.effect(f"store {kind} {halves}, ptr {place}, align {HALF_BYTES}")
            return
        exist = ", ".join(f"i32 {each}" for each in range(TILE_TERMS))
        pair = f"<{LANES} x i1>"
        mask = code.fresh(
            f"shufflevector {pair} {masks[0]}, {pair} {masks[1]}, <{TILE_TERMS} x i32> <{exist}>"
        )
        name = f"@llvm.masked.store.v{TILE_TERMS}i16.p0"
        code.declarations.add(f"declare void {name}({kind}, ptr, i32, <{TILE_TERMS} x i1>)")
        code.effect(
            f"call void {name}({kind} {halves}, ptr {place}, i32 {HALF_BYTES}, <{TILE_TERMS} x i1> {mask})"
        )

    def _divided(self, v: Vector, value: str) -> list[str]:
        """Returns the parts of a vector as i32, whose upper halves count."""
        bits = v.bitcast("float", value, "i32")
        magnitude = v.binary("and", "i32", bits, v.number("i32", _SIGN - 1))
        is_divided = v.compare("ult", "i32", magnitude, v.number("i32", _LIMIT))
        parts: list[str] = []
        for number in range(PARTS):
            if number == PARTS - 1:
                # Its lower half is left out.
                parts.append(v.bitcast("float", value, "i32"))
                break
            bits = v.bitcast("float", value, "i32")
            raised = v.binary("add", "i32", bits, v.number("i32", _HALF_UNIT))
            if not number:
                raised = v.select(is_divided, "i32", raised, bits)
            upper = v.binary("and", "i32", raised, v.number("i32", _UPPER - (1 << 32)))
            parts.append(upper)
            value = v.binary("fsub", "float", value, v.bitcast("i32", upper, "float"))
            if not number:
                value = v.select(is_divided, "float", value, v.number("float", 0))
        return parts

    def _joined(self, v: Vector, low: str, high: str) -> str:
        """Returns the upper halves of two vectors, as pairs of elements if the plan has pairs."""
        code = v.code
        kind, halves = v.type("i32"), f"<{TILE_TERMS} x i16>"
        if self._plan.is_paired:
            shifted = v.binary("lshr", "i32", low, v.number("i32", 8 * HALF_BYTES))
            upper = v.binary("and", "i32", high, v.number("i32", _UPPER - (1 << 32)))
            return code.value(f"bitcast {kind} {v.binary('or', 'i32', shifted, upper)} to {halves}")
        first, second = (code.value(f"bitcast {kind} {each} to {halves}") for each in (low, high))
        odd = ", ".join(f"i32 {2 * each + 1}" for each in range(TILE_TERMS))
        return code.value(f"shufflevector {halves} {first}, {halves} {second}, <{TILE_TERMS} x i32> <{odd}>")
