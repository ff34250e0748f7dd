"""Kernels whose elements need folds of their whole row, as a softmax: a row is folded, and its elements follow right away.

What is folded last is often what elements are made of: the powers of a softmax are summed, and then divided by their sum. They
are kept meanwhile: those of a short row in registers, of which there is one for each part of the row, others in scratch memory.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Apply,
    Axis,
    Expression,
    Load,
    Reduce,
    accumulator,
)
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.kernel import Kernel, weight_of
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import free_axes, rewrite, substitute, walk
from neurald.drivers.cpu.arrangement import arranged
from neurald.drivers.cpu.dialect import computed
from neurald.drivers.cpu.epilogue import arguments_of, finish, parameter_names, pointer_names
from neurald.drivers.cpu.folds import combine, identity_text, reduce_lanes
from neurald.drivers.cpu.instructions import Instructions
from neurald.drivers.cpu.kernels.counters import address, each_grain, multiple
from neurald.drivers.cpu.kernels.function import cost_ns, function_text
from neurald.drivers.cpu.narrowing import narrowed
from neurald.drivers.cpu.places import offset_of, stride_along
from neurald.drivers.cpu.routine import Routine
from neurald.drivers.cpu.statements import Statements
from neurald.drivers.cpu.target import Target
from neurald.drivers.cpu.vector import Vector

#: A longer row is better shared among threads, and does not stay in the nearest cache.
_LONGEST = 1 << 13
#: Parts of a row that are written out, and registers that are folded into by turns in a loop over a longer one.
_PARTS = 4
#: What lanes are counted in.
_LANE_BYTES = 4
#: What it takes to fold the lanes of a vector with each other, and to begin a row.
_HORIZONTAL_CYCLES, _ROW_CYCLES = 10.0, 10.0


#: Writes a part of a row, that begins at a place: from what is carried to what the next part is given. The last part begins earlier
#: where it would go beyond the row, and is told which of its elements are not in parts before it.
_Part: TypeAlias = Callable[[Sequence[str], str, str | None], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """A kernel as rows of elements.

    Attributes:
        kernel: its last axis is along the row.
        folds: of the row, each along one axis, and those that others need before them.
        kept: the fold whose elements are kept; `kernel.body` has `AccumulatorRef` in their place. None: there is none.
    """

    kernel: Kernel
    folds: tuple[Reduce, ...]
    kept: Reduce | None

    @property
    def length(self) -> int:
        """Of a row."""
        return self.kernel.axes[-1].extent


def is_row_by_row(kernel: Kernel) -> bool:
    """Whether a kernel is computed row by row."""
    return _is_candidate(kernel) and _folds_of(arranged(kernel)) is not None


def routine(kernel: Kernel, target: Target) -> Routine | None:
    """The routine of a kernel without a contraction, if it is one of rows."""
    rows = _rows_of(kernel)
    if rows is None:
        return None
    arguments = arguments_of(kernel)
    code = Instructions(parameter_names(arguments))
    writer = _Writer(rows, target, code)
    writer.write()
    count = math.prod(rows.kernel.shape[:-1])
    vectors = -(-rows.length // target.lanes(_LANE_BYTES))
    steps = vectors * _steps(rows) + len(rows.folds) * _HORIZONTAL_CYCLES + _ROW_CYCLES
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        grains=count,
        cost_ns=cost_ns(count * steps, arguments),
        declarations=frozenset(code.declarations),
        scratch_bytes=writer.scratch_bytes,
        label=f"rows of {rows.length}, {writer.lanes} elements at once",
        operations=kernel.operations,
    )


def _steps(rows: _Rows) -> float:
    """About how many instructions an element takes."""
    roots = (rows.kernel.body, *(fold.body for fold in rows.folds))
    return sum(weight_of(each.op) if isinstance(each, Apply) else 0.5 for each in walk(*roots))


def _is_candidate(kernel: Kernel) -> bool:
    """What is soon seen of a kernel of rows."""
    return kernel.row_axes is not None and not kernel.requirements and kernel.output_offset is None


def _rows_of(kernel: Kernel) -> _Rows | None:
    """A kernel as rows; None if it is something else."""
    if not _is_candidate(kernel):
        return None
    kernel = arranged(narrowed(kernel))
    folds = _folds_of(kernel)
    if folds is None:
        return None
    kept = next((fold for fold in reversed(folds) if _is_worth_keeping(fold, kernel)), None)
    if kept is not None:
        element = _beside(kept, kernel)
        found = accumulator(element.type)
        kernel = replace(kernel, body=rewrite(kernel.body, {element: found}.get, {}))
    return _Rows(kernel=kernel, folds=folds, kept=kept)


def _folds_of(kernel: Kernel) -> tuple[Reduce, ...] | None:
    """The folds of a kernel that is arranged, if all are of rows along its last axis."""
    folds = tuple(each for each in walk(kernel.body) if isinstance(each, Reduce))
    along = kernel.axes[-1]
    if not folds or kernel.row_axes != len(kernel.axes) - 1 or along.extent > _LONGEST:
        return None
    if not _is_side_by_side(kernel.body, along):
        return None
    for fold in folds:
        if len(fold.axes) != 1 or fold.axes[0].extent != along.extent or not _is_plain(fold):
            return None
        if not _is_side_by_side(fold.body, fold.axes[0]):
            return None
        if any(isinstance(each, Reduce) and free_axes(each) & set(fold.axes) for each in walk(fold.body)):
            return None
    return folds


def _is_side_by_side(element: Expression, along: Axis) -> bool:
    """Whether what is read for neighbours along an axis lies side by side; else rows are better computed beside each other.

    Tables are read anywhere.
    """
    loads = (each for each in walk(element) if isinstance(each, Load) and each.value.constant is None)
    return all(stride_along(offset_of(each), along) in (0, 1) for each in loads)


def _is_plain(fold: Reduce) -> bool:
    """Whether numbers of the fold are summed as they are: halves are not, and positions have no size of their own."""
    return fold.type not in (Scalar.FLOAT16, Scalar.INDEX) and fold.type.size_bytes <= _LANE_BYTES


def _beside(fold: Reduce, kernel: Kernel) -> Expression:
    """What is folded, at the position of the kernel's element."""
    return substitute(fold.body, {fold.axes[0]: kernel.axes[-1]})


def _is_worth_keeping(fold: Reduce, kernel: Kernel) -> bool:
    """Whether the kernel's element is made of what is folded, and that takes more than to read it.

    What is the same along the whole row is not kept: the element would be found inside the fold itself, too.
    """
    if not free_axes(fold.body) & set(fold.axes):
        return False
    element = _beside(fold, kernel)
    is_costly = isinstance(element, Apply) and weight_of(element.op) > 1 and element.type is Scalar.FLOAT32
    return is_costly and any(each is element for each in kernel.expressions)


class _Writer:
    """Writes a function that computes rows, a row a grain."""

    def __init__(self, rows: _Rows, target: Target, code: Instructions) -> None:
        self._rows, self._target, self._code = rows, target, code
        self._pointers = pointer_names(arguments_of(rows.kernel))
        native, length = target.lanes(_LANE_BYTES), rows.length
        self._is_written_out = length <= _PARTS * native
        #: How many elements are computed at once.
        if self._is_written_out:
            self.lanes = min(native, 1 << (length.bit_length() - 1))
        else:
            # What is idle at the end of a row, and that several registers at once take less time.
            self.lanes = min(
                (native * count for count in (4, 2, 1)),
                key=lambda lanes: -(-length // lanes) * (lanes / native + 0.5),
            )
        self._v = Vector(code, target, self.lanes)
        #: What is kept in registers, by where in the row it begins.
        self._parts: dict[str, str] = {}

    @property
    def scratch_bytes(self) -> int:
        """Of elements that are kept."""
        if self._rows.kept is None or self._is_written_out:
            return 0
        return -(-self._rows.length // self.lanes) * self.lanes * _LANE_BYTES

    def write(self) -> None:
        """The instructions for the range of grains."""
        kernel = self._rows.kernel
        with each_grain(self._code, [*(axis.extent for axis in kernel.axes[:-1]), 1]) as (position, _):
            names: dict[Expression, str] = dict(zip(kernel.axes[:-1], position[:-1], strict=True))
            for fold in self._rows.folds:
                names[fold] = self._folded(fold, names)
            self._over_parts([], lambda _, begin, __: self._finish(names, begin))

    def _over_parts(self, carried: Sequence[tuple[str, str]], write: _Part) -> list[str]:
        """Instructions for each part of a row.

        Args:
            carried: types, and what the first part begins with.
            write: those for a part.

        Returns:
            What the last part leaves.
        """
        state, length, lanes = [start for _, start in carried], self._rows.length, self.lanes
        whole = length // lanes * lanes
        if self._is_written_out:
            for begin in range(0, whole, lanes):
                state = write(state, str(begin), None)
        else:
            with self._code.loop("0", str(whole), carried, step=lanes) as loop:
                loop.results = write(loop.carried, loop.index, None)
            state = loop.results
        if whole < length:
            first = length - lanes
            is_new = self._v.numbers("i1", [first + lane >= whole for lane in range(lanes)])
            state = write(state, str(first), is_new)
        return state

    def _statements(self, names: Mapping[Expression, str], along: Axis, begin: str) -> Statements:
        return Statements(
            self._code,
            self._target,
            self._pointers,
            {**names, along: begin},
            lanes=self.lanes,
            along=along,
        )

    def _folded(self, fold: Reduce, names: Mapping[Expression, str]) -> str:
        """The name of a fold of the row."""
        v, (along,) = self._v, fold.axes
        element, start = computed(fold, self.lanes), identity_text(v, fold)

        def part(totals: Sequence[str], begin: str, is_new: str | None) -> list[str]:
            value = self._statements(names, along, begin).value(fold.body)
            if fold is self._rows.kept:
                self._keep(begin, value)
            if is_new is not None:
                value = v.choose(is_new, element, value, start)
            return [combine(v, fold.reduction, fold.type, element, totals[0], value)]

        (total,) = self._over_parts([(v.type(element), start)], part)
        return reduce_lanes(v, fold, element, total)

    def _keep(self, begin: str, value: str) -> None:
        """Keeps elements that begin at a place of the row."""
        if self._is_written_out:
            self._parts[begin] = value
            return
        at = address(self._code, "%scratch", multiple(self._code, begin, _LANE_BYTES))
        self._code.effect(f"store {self._v.type('float')} {value}, ptr {at}, align {_LANE_BYTES}")

    def _kept(self, begin: str) -> str:
        """What was kept."""
        if self._is_written_out:
            return self._parts[begin]
        at = address(self._code, "%scratch", multiple(self._code, begin, _LANE_BYTES))
        return self._code.fresh(f"load {self._v.type('float')}, ptr {at}, align {_LANE_BYTES}")

    def _finish(self, names: Mapping[Expression, str], begin: str) -> list[str]:
        """The elements of a part of the row."""
        kernel = self._rows.kernel
        known = dict(names)
        known.update(
            (each, self._kept(begin)) for each in walk(kernel.body) if isinstance(each, AccumulatorRef)
        )
        statements = self._statements(known, kernel.axes[-1], begin)
        finish(statements, kernel, self._pointers[kernel.output], linearize(kernel.axes, kernel.shape))
        return []
