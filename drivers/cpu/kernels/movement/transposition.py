"""Transposes two axes: the source is not contiguous along the last axis of the output.

Square blocks are read in rows of 16 bytes. Rows of several blocks share a register, and halves of
registers are interleaved repeatedly. Each pass rotates the bits of an element's row and column by
one, until rows and columns are swapped and a register holds neighbours in the output.

If the last axis of the output is shorter than a block, its elements are moved as one: they are
interleaved when they are read, if they are far apart in the source.

If rows of the source are shorter than a block, what follows each of them is read as well, and not
stored. The last rows are read with what precedes them instead, to stay in range.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Axis, Linear, Load
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.offsets import offset_of
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.axis_rewriting import simplify_axes
from neurald.drivers.cpu.codegen.epilogue import arguments_of, parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.kernels.common.work_items import each_work_item
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Row of a block, the unit of interleave instructions.
_ROW_BYTES = 16
#: Columns of a tile, in bytes of a row that is read, and rows of a tile.
_TILE_BYTES, _TILE_ROWS = 128, 32
#: The first-level cache holds this many lines whose addresses differ by multiples of this size.
_CACHE_WAYS, _CACHE_WAY_BYTES = 8, 4096
#: Sizes of runs of elements that are moved as one.
_RUN_BYTES = (2, 4, 8)
#: Minimum part of a block's rows that is used, and the minimum distance between the elements of a
#: column in the source if it is not all: the generic code loads vectors of closer ones.
_MIN_USED, _MIN_DISTANCE = 1 / 4, 9


class _Movement(Struct, frozen=True, kw_only=True):
    """A transposing movement of elements, or of short runs of elements.

    The elements of a run are neighbours in the output. In the source they are neighbours, too, or
    are in different planes.

    Attributes:
        axes: those of the kernel, split and joined, but that of a run.
        source: the value that is transposed.
        size_bytes: the size of an element or run.
        alignment: the alignment of the elements, in bytes.
        near: the axis along which the source is contiguous; the output is along the last one.
        unit_bytes: the unit of offsets and strides in the source: the size of an element or run, or
            of an element of a run from several planes.
        offset: the offset of the first element in the source.
        strides: the strides of the source by axis.
        planes: the number of planes.
        plane_stride: the distance between planes.
    """

    axes: tuple[Axis, ...]
    source: Value
    size_bytes: int
    alignment: int
    near: Axis
    unit_bytes: int
    offset: int
    strides: dict[Axis, int]
    planes: int = 1
    plane_stride: int = 0

    @property
    def rows(self) -> int:
        """Number of rows of a block, which is square."""
        return _ROW_BYTES // self.size_bytes

    @property
    def beyond(self) -> int:
        """Number of elements that a block reads beyond the columns that it stores."""
        return max(0, self.rows - self.near.extent)

    @property
    def ending(self) -> int:
        """Number of last rows after which there are too few elements to read beyond them."""
        return -(-self.beyond // self.strides[self.axes[-1]]) if self.beyond else 0

    def can_read_before(self, rows: int) -> bool:
        """Returns True if as many elements precede these last rows as may be read with them."""
        last = self.axes[-1]
        return self.beyond <= self.strides.get(last, 0) * (last.extent - rows)

    def output_strides(self) -> dict[Axis, int]:
        """Returns the strides of the output by axis, in elements or runs."""
        lengths = [each.extent for each in self.axes]
        return {each: math.prod(lengths[number + 1 :]) for number, each in enumerate(self.axes)}


def routine(kernel: Kernel, target: Target) -> Routine | None:
    """Returns the routine of a kernel, if it transposes at least one block."""
    movement = _movement(kernel)
    if movement is None or (movement.beyond and not _is_partly_used(movement)):
        return None
    last = movement.axes[-1]

    def is_in_range(joined: int) -> bool:
        rows = joined * movement.rows
        return rows + movement.ending <= last.extent and movement.can_read_before(rows)

    joined = max(1, target.vector_bytes // _ROW_BYTES)
    while joined > 1 and not is_in_range(joined):
        joined //= 2
    if not is_in_range(joined):
        return None
    arguments = arguments_of(kernel)
    code = Instructions(parameter_names(arguments))
    writer = _TransposeWriter(movement, code, pointer_names(arguments)[movement.source], joined)
    writer.write()
    # An instruction per register and pass, and as much for loading and storing.
    registers = kernel.output.size_bytes / (joined * _ROW_BYTES)
    loading = joined * (2 * movement.planes - 1)
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=writer.work_items,
        cost_ns=cost_ns(registers * (loading + 2 + writer.passes), arguments),
        declarations=frozenset(code.declarations),
        label=f"transposed, {joined * movement.rows} by {movement.rows} elements at once",
        operations=kernel.operations,
    )


def _movement(kernel: Kernel) -> _Movement | None:
    if kernel.requirements or not isinstance(kernel.body, Load):
        return None
    kernel = simplify_axes(kernel)
    load = kernel.body
    if not isinstance(load, Load) or load.guard is not None or load.type is not kernel.output.type:
        return None
    offset = offset_of(load)
    terms = offset.terms if isinstance(offset, Linear) else ((offset, 1),)
    strides = {term: factor for term, factor in terms if isinstance(term, Axis) and factor > 0}
    if len(strides) < len(terms):
        return None
    first, size_bytes = offset.constant if isinstance(offset, Linear) else 0, load.type.size_bytes
    axes, run = kernel.axes, kernel.axes[-1]
    length, unit_bytes, planes = run.extent, size_bytes, 1
    is_run = length * size_bytes in _RUN_BYTES and length > 1 and len(axes) > 1
    if is_run and strides.get(run) == 1:
        # Runs along the last axis, such as the two parts of a complex number, are like elements.
        others = {each: stride for each, stride in strides.items() if each is not run}
        if any(stride % length for stride in (first, *others.values())):
            return None
        strides = {each: stride // length for each, stride in others.items()}
        axes, first, size_bytes = axes[:-1], first // length, size_bytes * length
        unit_bytes = size_bytes
    elif is_run and run in strides:
        axes, size_bytes, planes = axes[:-1], size_bytes * length, length
    near = next((each for each, stride in strides.items() if stride == 1), None)
    if near is None or near is axes[-1]:
        return None
    return _Movement(
        axes=axes,
        source=load.value,
        size_bytes=size_bytes,
        alignment=load.type.size_bytes,
        near=near,
        unit_bytes=unit_bytes,
        offset=first,
        strides=strides,
        planes=planes,
        plane_stride=strides[run] if planes > 1 else 0,
    )


def _is_partly_used(movement: _Movement) -> bool:
    """Returns True if blocks with columns that are not stored outdo the generic code."""
    distance = movement.strides.get(movement.axes[-1], 0)
    is_used = movement.near.extent >= max(2, _MIN_USED * movement.rows)
    return is_used and distance >= _MIN_DISTANCE and movement.planes == 1


class _TransposeWriter:
    """Writes the function of a transposition.

    A work item is a tile: two cache lines of each of a few rows that are read. One tile after the
    other is beside it in the output, so that its lines are written as a whole.
    """

    def __init__(self, movement: _Movement, code: Instructions, source: str, joined: int) -> None:
        self._movement, self._code, self._source = movement, code, source
        self._joined = joined
        last, near = movement.axes[-1], movement.near
        self._others = [each for each in movement.axes[:-1] if each is not near]
        self._columns = self._tile_columns()
        #: End of the rows after which there is enough to read.
        self._reach = last.extent - movement.ending
        self._tiles = max(1, self._reach // self._tile_rows)
        columns = -(-near.extent // self._columns)
        self._extents = [*(each.extent for each in self._others), columns, self._tiles]

    def _tile_columns(self) -> int:
        """Returns the number of columns of a tile, about two cache lines that overlap least.

        There are at most as many as the first-level cache holds lines of the rows that are written.
        """
        movement = self._movement
        rows, extent, size = movement.rows, movement.near.extent, movement.size_bytes
        if movement.beyond:
            return extent
        sets = _CACHE_WAY_BYTES // math.gcd(movement.output_strides()[movement.near] * size, _CACHE_WAY_BYTES)
        most = max(rows, min(_TILE_BYTES // size, extent // rows * rows, _CACHE_WAYS * sets))
        return min(range(most, 0, -rows), key=lambda columns: -(-extent // columns) * columns)

    @property
    def _tile_rows(self) -> int:
        """Number of rows of a tile; the last one has those that are left as well."""
        length = self._joined * self._movement.rows
        return max(1, _TILE_ROWS // length) * length

    @property
    def work_items(self) -> int:
        return math.prod(self._extents)

    @property
    def passes(self) -> int:
        """Number of interleave passes."""
        return self._movement.rows.bit_length() - 1

    def write(self) -> None:
        code, length = self._code, self._joined * self._movement.rows
        near, last = self._movement.near.extent, self._movement.axes[-1].extent
        with each_work_item(code, self._extents) as (position, _):
            *at, columns, tile = position
            column = self._begin(columns, self._columns, near)
            first = multiple(code, tile, self._tile_rows)
            whole = min(self._tile_rows, self._reach // length * length)
            with code.loop("0", str(whole), step=length, may_be_empty=not whole) as loop:
                self._move(at, total(code, first, loop.index), column, self._joined)
            begin = (self._tiles - 1) * self._tile_rows + whole
            if begin == last:
                return
            with self._in_last(tile):
                end = begin + (self._reach - begin) // length * length
                if begin < end:
                    with code.loop(str(begin), str(end), step=length) as loop:
                        self._move(at, loop.index, column, self._joined)
                if end < last:
                    self._move_last(at, last - end, column)

    def _move_last(self, at: Sequence[str], count: int, column: str) -> None:
        """Moves the last rows, of which there may be more than of joined blocks."""
        rows, joined = self._movement.rows, self._joined
        last = self._movement.axes[-1].extent
        while joined > 1 and joined // 2 * rows >= count:
            joined //= 2
        if count > joined * rows:
            # Blocks whose last row is the last one that may be read.
            self._move(at, str(self._reach - joined * rows), column, joined)
        # The last blocks start earlier to stay in range.
        self._move(at, str(last - joined * rows), column, joined, before=self._movement.beyond)

    def _in_last(self, tile: str) -> AbstractContextManager[None]:
        """Returns a condition that a tile is the last one along the last axis."""
        if self._tiles == 1:
            return nullcontext()
        return self._code.when(self._code.value(f"icmp eq i64 {tile}, {self._tiles - 1}"))

    def _move(self, at: Sequence[str], along: str, column: str, joined: int, *, before: int = 0) -> None:
        """Moves the columns of a tile, of joined blocks.

        Args:
            at: positions along other axes.
            along: the first row.
            column: the first column.
            joined: number of blocks.
            before: number of elements that are read before the first column.
        """
        code, movement, size = self._code, self._movement, self._movement.size_bytes
        unit = movement.unit_bytes
        last, near, rows = movement.axes[-1], movement.near, movement.rows
        written_strides, strides = movement.output_strides(), movement.strides
        positions = [*zip(self._others, at, strict=True), (last, along), (near, column)]
        read = [multiple(code, index, unit * strides.get(each, 0)) for each, index in positions]
        written = [multiple(code, index, size * written_strides[each]) for each, index in positions]
        source = address(code, self._source, *read, str(unit * (movement.offset - before)))
        target = address(code, "%a0", *written)
        for start in range(0, self._columns, rows):
            block = address(code, source, str(start * unit))
            columns = self._transposed(block, unit * strides.get(last, 0), joined)
            stored = columns[before : before + self._columns - start]
            for number, register in enumerate(stored, start):
                place = address(code, target, str(number * size * written_strides[near]))
                kind = self._kind(joined * rows)
                code.effect(f"store {kind} {register}, ptr {place}, align {movement.alignment}")

    def _begin(self, block: str, length: int, extent: int) -> str:
        """Returns the start of a block; the last one starts earlier to stay in range."""
        index = multiple(self._code, block, length)
        if extent % length == 0:
            return index
        self._code.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
        return self._code.value(f"call i64 @llvm.smin.i64(i64 {index}, i64 {extent - length})")

    def _kind(self, count: int) -> str:
        return f"<{count} x i{8 * self._movement.size_bytes}>"

    def _transposed(self, source: str, stride_bytes: int, joined: int) -> list[str]:
        """Returns the columns of joined blocks, one register each."""
        rows = self._movement.rows
        registers = [self._register(source, row, stride_bytes, joined) for row in range(rows)]
        low = [lane * rows + at for lane in range(joined) for at in range(rows // 2)]
        for _ in range(self.passes):
            pairs = list(zip(registers[: rows // 2], registers[rows // 2 :], strict=True))
            registers = [
                self._interleaved(first, second, [at + start for at in low], joined * rows)
                for first, second in pairs
                for start in (0, rows // 2)
            ]
        return registers

    def _register(self, source: str, row: int, stride_bytes: int, joined: int) -> str:
        """Loads a row of all joined blocks."""
        code, rows = self._code, self._movement.rows
        parts = [
            self._row(address(code, source, str((block * rows + row) * stride_bytes)))
            for block in range(joined)
        ]
        length = rows
        while len(parts) > 1:
            kind, length = self._kind(length), 2 * length
            mask = ", ".join(f"i32 {lane}" for lane in range(length))
            parts = [
                code.fresh(f"shufflevector {kind} {first}, {kind} {second}, <{length} x i32> <{mask}>")
                for first, second in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def _row(self, source: str) -> str:
        """Loads a row of a block: elements or runs."""
        code, movement, rows = self._code, self._movement, self._movement.rows
        bits, parts, length = 8 * movement.unit_bytes, [], rows
        for plane in range(movement.planes):
            at = address(code, source, str(plane * movement.plane_stride * movement.unit_bytes))
            parts.append(code.fresh(f"load <{rows} x i{bits}>, ptr {at}, align {movement.alignment}"))
        if len(parts) == 1:
            return parts[0]
        while len(parts) > 1:
            kind, half = f"<{length} x i{bits}>", len(parts) // 2
            mask = ", ".join(f"i32 {lane}, i32 {lane + length}" for lane in range(length))
            length *= 2
            parts = [
                code.fresh(f"shufflevector {kind} {first}, {kind} {second}, <{length} x i32> <{mask}>")
                for first, second in zip(parts[:half], parts[half:], strict=True)
            ]
        return code.fresh(f"bitcast <{length} x i{bits}> {parts[0]} to {self._kind(rows)}")

    def _interleaved(self, first: str, second: str, lanes: list[int], count: int) -> str:
        """Interleaves the given lanes of two registers."""
        kind = self._kind(count)
        mask = ", ".join(f"i32 {lane}, i32 {lane + count}" for lane in lanes)
        return self._code.fresh(f"shufflevector {kind} {first}, {kind} {second}, <{count} x i32> <{mask}>")
