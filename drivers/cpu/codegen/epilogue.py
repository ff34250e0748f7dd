"""Epilogues: the expressions that contraction kernels compute from their accumulators."""

from collections.abc import Mapping, Sequence

from neurald.drivers.compiler.ir.expression import AccumulatorRef, Expression
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.statements import Statements
from neurald.drivers.cpu.codegen.vector_lanes import VectorLanes
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.int64_narrowing import narrow_int64
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.target.target import Target


def arguments_of(kernel: Kernel) -> tuple[Value, ...]:
    """Returns the arguments of a kernel's function: its output and inputs."""
    return (kernel.output, *kernel.inputs)


def pointer_names(values: Sequence[Value]) -> dict[Value, str]:
    """Returns the parameter names of a function of these values."""
    return {value: f"%a{position}" for position, value in enumerate(values)}


def parameter_names(values: Sequence[Value]) -> tuple[str, ...]:
    """Returns all names visible in the whole function, for `Instructions(outside)`."""
    return (*pointer_names(values).values(), "%scratch", "%status", "%begin", "%end")


def parameters(values: Sequence[Value]) -> str:
    """Returns the parameter list of a kernel's function; see `Routine`."""
    pointers = [f"ptr noalias %a{position}" for position in range(len(values))]
    return ", ".join((*pointers, "ptr %scratch", "ptr %status", "i64 %begin", "i64 %end"))


class Epilogue:
    """Computes and stores elements of a contraction kernel from their sums.

    Instructions are written at the current position of `code`, inside its open loops, and hoisted
    out of loops that they do not depend on. Repeated expressions are computed once: if all elements
    of a tile are written, then bias, multipliers and other per-channel values are only loaded once.
    A function looks like this:

        code = Instructions(parameter_names(values))
        epilogue = Epilogue(kernel, target, code)
        with code.loop("%begin", "%end", may_be_empty=True) as row:
            ...
            total = code.value("call <16 x float> @llvm.fmuladd...")
            epilogue.write(total, ["0", row.index, column, channel], 16)

    Args:
        kernel: the kernel, which has a contraction.
        target: the target of the code.
        code: receives the instructions. `%status` must be visible.
        pointers: names of the values' memory, if they differ from
            `pointer_names(arguments_of(kernel))`.
    """

    def __init__(
        self,
        kernel: Kernel,
        target: Target,
        code: Instructions,
        pointers: Mapping[Value, str] | None = None,
    ) -> None:
        assert kernel.contraction is not None  # noqa: S101 - callers render a contraction
        self._is_wide = kernel.contraction.output.type is Scalar.INT64
        self._sums = [each for each in walk(*kernel.roots) if isinstance(each, AccumulatorRef)]
        self._axes = kernel.axes
        self._kernel, self._target, self._code = narrow_int64(kernel), target, code
        self._pointers = pointers or pointer_names(arguments_of(kernel))
        self._place = kernel.stored_at
        self._varying: dict[Expression, bool] = {}

    def write(self, total: str, axes: Sequence[str], lanes: int, mask: str | None = None) -> None:
        """Writes the instructions for some elements.

        Args:
            total: name of the sums, of type <lanes x float> or <lanes x i32> (for INT32 and INT64);
                a scalar if `lanes` is 1.
            axes: index of the first element: a name or number (i64) for each axis of `kernel.axes`.
                Further elements follow along the last axis.
            lanes: number of elements, a power of two.
            mask: name or literal of a <lanes x i1>, true for elements that exist; None if all do.
                Other lanes read and write nothing.
        """
        v = Vector(self._code, self._target, lanes)
        if self._is_wide:
            total = v.cast("sext", "i32", total, "i64")
        names: dict[Expression, str] = dict(zip(self._axes, axes, strict=True))
        names.update(dict.fromkeys(self._sums, total))
        statements = Statements(
            self._code,
            self._target,
            self._pointers,
            names,
            lanes=VectorLanes.across(v, self._axes[-1], mask, self._varying),
        )
        finish(statements, self._kernel, self._pointers[self._kernel.output], self._place)


def epilogue(
    kernel: Kernel,
    target: Target,
    code: Instructions,
    total: str,
    axes: Sequence[str],
    lanes: int,
    mask: str | None = None,
    pointers: Mapping[Value, str] | None = None,
) -> None:
    """Writes an `Epilogue` once."""
    Epilogue(kernel, target, code, pointers).write(total, axes, lanes, mask)


def finish(statements: Statements, kernel: Kernel, pointer: str, offset: Expression) -> None:
    """Checks requirements and stores a kernel's element at the index of `statements`.

    Args:
        statements: statements that know the names of the axes.
        kernel: the kernel.
        pointer: the output.
        offset: offset of the element in it.
    """
    for number, (condition, _) in enumerate(kernel.requirements, start=1):
        statements.require(condition, number)
    statements.store(pointer, offset, kernel.body)
