"""Copies a value with a box of it replaced, whose position follows from data, such as in a cache.

Rows are contiguous in the value and, as far as they are inside of the box, in what replaces it.
Long rows consist of at most three ranges, which are copied as bytes, with full registers. Blocks of
short ones are copied as a whole, and the parts of rows inside of the box are then written again.
"""

import math
from collections.abc import Sequence
from contextlib import ExitStack

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Expression, Load, index
from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.graph import inside
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import free_axes, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import parameter_names, pointer_names
from neurald.drivers.cpu.codegen.statements import Statements
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.byte_copies import copy_bytes
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.kernels.common.work_items import each_work_item
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Registers copied per iteration.
_UNROLLED = 4
#: Values of fewer bytes are copied faster by the generic kernel.
_MIN_BYTES = 128
#: Parts of rows that are replaced are not copied first if they have at least so many bytes.
_MIN_UNWRITTEN_BYTES = 1024
#: Blocks are the smallest groups of rows with at least so many bytes.
_MIN_GROUP_BYTES = 16 << 10
#: Cycles per row besides copying, and bytes copied per cycle.
_ROW_CYCLES, _BYTES_PER_CYCLE = 20.0, 32.0


class _BoxUpdate(Struct, frozen=True, kw_only=True):
    """A value whose box at `begins` is replaced by `update`.

    Attributes:
        source: the value, of the shape of the output.
        update: what replaces the box.
        begins: the first index of the box in each dimension.
    """

    source: Value
    update: Value
    begins: tuple[Expression, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions that begin a row; the following ones are also the update's."""
        pairs = list(zip(self.source.shape, self.update.shape, strict=True))
        while len(pairs) > 1 and pairs[-1][0] == pairs[-1][1]:
            pairs.pop()
        return len(pairs) - 1

    @property
    def run(self) -> int:
        """Number of contiguous elements for each index of the last dimension of rows."""
        return math.prod(self.source.shape[self.rank + 1 :])

    @property
    def has_blocks(self) -> bool:
        """Returns True if blocks are copied before parts of their rows are replaced."""
        kind, replaced = self.source.type, math.prod(self.update.shape[self.rank :])
        return kind is Scalar.BOOL or replaced * kind.size_bytes < _MIN_UNWRITTEN_BYTES

    @property
    def outer(self) -> int:
        """Number of dimensions that work items have: `rank`, or less if they are blocks of rows."""
        dimensions = self.rank
        while self.has_blocks and dimensions and self.block_bytes(dimensions) < _MIN_GROUP_BYTES:
            dimensions -= 1
        return dimensions

    def block_bytes(self, dimensions: int) -> int:
        """Returns the number of contiguous bytes for each index of so many dimensions."""
        return math.prod(self.source.shape[dimensions:]) * self.source.type.size_bytes


def routine(kernel: Kernel, target: Target) -> Routine | None:
    """Returns the routine of a kernel, or None if it does not replace a box of a value.

    Args:
        kernel: has no contraction, and its output is not empty.
        target: the target of the code.
    """
    found = _box_update(kernel)
    if found is None:
        return None
    loaded = (each.value for begin in found.begins for each in walk(begin) if isinstance(each, Load))
    arguments = tuple(dict.fromkeys((kernel.output, found.source, found.update, *loaded)))
    code = Instructions(parameter_names(arguments))
    writer = _Writer(found, kernel.output, arguments, target, code)
    rows, outer = found.source.shape[: found.rank], found.source.shape[: found.outer]
    with each_work_item(code, outer or (1,)) as (indices, _):
        write = writer.write_block if found.has_blocks else writer.write_row
        write(indices[: found.outer])
    written = found.update.shape[: found.rank] if found.has_blocks else rows
    cycles = math.prod(written) * _ROW_CYCLES + kernel.output.size_bytes / _BYTES_PER_CYCLE
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=math.prod(outer),
        cost_ns=cost_ns(cycles, arguments),
        declarations=frozenset(code.declarations),
        label=f"{math.prod(rows)} rows of {found.source.shape[found.rank] * found.run} with a box replaced",
        operations=kernel.operations,
    )


def _box_update(kernel: Kernel) -> _BoxUpdate | None:
    body = kernel.body
    if kernel.requirements or kernel.output_offset is not None:
        return None
    if not isinstance(body, Load) or body.guard is None or not isinstance(body.otherwise, Load):
        return None
    update, other = body.value, body.otherwise
    if has_extents(kernel.shape + update.shape) or len(body.index) != len(kernel.axes):
        return None
    is_whole = other.guard is None and other.value.shape == kernel.output.shape == kernel.shape
    if not is_whole or body.guard is not inside(body.index, update.shape):
        return None
    if any(axis.extent > 1 and axis is not at for axis, at in zip(kernel.axes, other.index, strict=True)):
        return None
    begins = tuple(
        axis - at if axis.extent > 1 else index(0) for axis, at in zip(kernel.axes, body.index, strict=True)
    )
    if any(free_axes(each) for each in begins):
        return None
    ends = zip(begins, update.shape, other.value.shape, strict=True)
    if any(begin.low < 0 or begin.high + size > length for begin, size, length in ends):
        return None  # a part of the box would be written outside of the output
    if kernel.output.size_bytes < _MIN_BYTES:
        return None
    return _BoxUpdate(source=other.value, update=update, begins=begins)


class _Writer:
    """Writes the instructions for a work item."""

    def __init__(
        self,
        box: _BoxUpdate,
        output: Value,
        arguments: Sequence[Value],
        target: Target,
        code: Instructions,
    ) -> None:
        self._box, self._code, self._target = box, code, target
        self._pointers = pointer_names(arguments)
        self._output, self._element = self._pointers[output], output.type.size_bytes
        self._are_bools = output.type is Scalar.BOOL
        statements = Statements(code, target, self._pointers, {})
        self._begins = [statements.value(each) for each in box.begins]

    def write_row(self, indices: Sequence[str]) -> None:
        """Writes the instructions for the row at these indices."""
        code, box, rank = self._code, self._box, self._box.rank
        step = box.run * self._element
        length, width = box.source.shape[rank] * step, box.update.shape[rank] * step
        start, row, is_inside = self._places(indices)
        begin = multiple(code, self._begins[rank], step)
        before = code.fresh(f"select i1 {is_inside}, i64 {begin}, i64 {length}")
        replaced = code.fresh(f"select i1 {is_inside}, i64 {width}, i64 0")
        source = address(code, self._pointers[box.source], multiple(code, start, length))
        to = address(code, self._output, multiple(code, start, length))
        update = address(code, self._pointers[box.update], multiple(code, row, width))
        after = total(code, before, replaced)
        rest = code.fresh(f"sub i64 {length}, {after}")
        behind = address(code, source, after)
        # One loop, so that the instructions that copy are written once.
        carried = [("ptr", source), ("ptr", to), ("i64", before), ("ptr", update), ("i64", replaced)]
        with code.loop("0", "3", carried) as part:
            origin, target, size, following, following_size = part.carried
            self._copy(target, origin, size)
            part.results = [following, address(code, target, size), following_size, behind, rest]

    def write_block(self, indices: Sequence[str]) -> None:
        """Writes the instructions for the block at these indices."""
        code, box = self._code, self._box
        size = box.block_bytes(box.outer)
        number, update, is_inside = self._places(indices)
        start = multiple(code, number, size)
        source, to = address(code, self._pointers[box.source], start), address(code, self._output, start)
        self._copy_known(source, to, size)
        with code.when(is_inside):
            self._replace(to, update)

    def _replace(self, block: str, update: str) -> None:
        """Writes the instructions that replace the parts of a block's rows inside of the box.

        Args:
            block: pointer to the block.
            update: number of the block in the update.
        """
        code, box = self._code, self._box
        outer, rank = box.outer, box.rank
        shape = box.update.shape
        width = math.prod(shape[rank:]) * self._element
        rows = math.prod(shape[outer:rank])
        offsets = [
            multiple(code, self._begins[each], box.block_bytes(each + 1)) for each in range(outer, rank)
        ]
        offsets.append(multiple(code, self._begins[rank], box.run * self._element))
        first = address(code, block, *offsets)
        source = address(code, self._pointers[box.update], multiple(code, update, rows * width))
        with ExitStack() as stack:
            at: list[str] = []
            row = "0"
            for dimension in range(outer, rank):
                loop = stack.enter_context(code.loop("0", str(shape[dimension])))
                row = total(code, multiple(code, row, shape[dimension]), loop.index)
                at.append(multiple(code, loop.index, box.block_bytes(dimension + 1)))
            self._copy_known(
                address(code, source, multiple(code, row, width)), address(code, first, *at), width
            )

    def _copy_known(self, source: str, to: str, size: int) -> None:
        copy_bytes(self._code, self._target, source, to, size, are_bools=self._are_bools)

    def _places(self, indices: Sequence[str]) -> tuple[str, str, str]:
        """Returns the number of a row, that of its row in the update, and if it has one (i1)."""
        code, box = self._code, self._box
        number, row, is_inside = "0", "0", "true"
        for dimension, at in enumerate(indices):
            length, size = box.source.shape[dimension], box.update.shape[dimension]
            number = total(code, multiple(code, number, length), at)
            distance = code.value(f"sub i64 {at}, {self._begins[dimension]}")
            row = total(code, multiple(code, row, size), distance)
            is_one = code.value(f"icmp ult i64 {distance}, {size}")
            is_inside = code.value(f"and i1 {is_inside}, {is_one}")
        return number, code.value(f"select i1 {is_inside}, i64 {row}, i64 0"), is_inside

    def _copy(self, to: str, source: str, size: str) -> None:
        """Copies `size` bytes."""
        code, register = self._code, self._target.vector_bytes
        done = "0"
        for step in (_UNROLLED * register, register):
            whole = code.fresh(f"and i64 {size}, {-step}")
            with code.loop(done, whole, step=step, may_be_empty=True) as loop:
                for offset in range(0, step, register):
                    self._move(to, source, total(code, loop.index, str(offset)), register)
            done = whole
        # What is left, in halves.
        width = register // 2
        while width:
            has_part = code.fresh(f"icmp ne i64 {code.fresh(f'and i64 {size}, {width}')}, 0")
            with code.when(has_part):
                self._move(to, source, code.fresh(f"and i64 {size}, {-2 * width}"), width)
            width //= 2

    def _move(self, to: str, source: str, offset: str, width: int) -> None:
        code, kind = self._code, f"<{width} x i8>"
        loaded = code.fresh(f"load {kind}, ptr {address(code, source, offset)}, align 1")
        code.effect(f"store {kind} {loaded}, ptr {address(code, to, offset)}, align 1")
