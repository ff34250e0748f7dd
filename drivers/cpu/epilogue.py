"""What follows the sums of a contraction, in the kernels that compute those."""

from collections.abc import Mapping, Sequence

from neurald.drivers.compiler.expression import AccumulatorRef, Expression
from neurald.drivers.compiler.graph import Value, linearize
from neurald.drivers.compiler.kernel import Kernel
from neurald.drivers.compiler.rewriting import walk
from neurald.drivers.compiler.scalar import Scalar
from neurald.drivers.cpu.instructions import Instructions
from neurald.drivers.cpu.narrowing import narrowed
from neurald.drivers.cpu.statements import Statements
from neurald.drivers.cpu.target import Target
from neurald.drivers.cpu.vector import Vector


def arguments_of(kernel: Kernel) -> tuple[Value, ...]:
    """What a kernel's function takes: its output, and each value that it reads."""
    return (kernel.output, *kernel.inputs)


def pointer_names(values: Sequence[Value]) -> dict[Value, str]:
    """What the parameters of a function of these values are called."""
    return {value: f"%a{position}" for position, value in enumerate(values)}


def parameter_names(values: Sequence[Value]) -> tuple[str, ...]:
    """All names that are known in the whole function; what `Instructions` takes as `outside`."""
    return (*pointer_names(values).values(), "%scratch", "%status", "%begin", "%end")


def parameters(values: Sequence[Value]) -> str:
    """The parameter list of a kernel's function, see `Routine`."""
    pointers = [f"ptr noalias %a{position}" for position in range(len(values))]
    return ", ".join((*pointers, "ptr %scratch", "ptr %status", "i64 %begin", "i64 %end"))


class Epilogue:
    """Computes and stores elements of a kernel with a contraction from the sums at their positions.

    The instructions go to where `code` is, inside whatever loops are open there; what does not depend on a loop's counter is
    put outside of it. What is asked for twice is computed once: write it for all positions of a tile, and bias, multipliers
    and so on, which are the same for the same channels, are loaded once. So the function looks like this:

        code = Instructions(parameter_names(values))
        epilogue = Epilogue(kernel, target, code)
        with code.loop("%begin", "%end", may_be_empty=True) as row:
            ...
            total = code.value("call <16 x float> @llvm.fmuladd...")
            epilogue.write(total, ["0", row.index, column, channel], 16)

    Args:
        kernel: what is computed; its `contraction` is what sums are of.
        target: what the instructions are for.
        code: where they go. `%status` must be known there.
        pointers: the names of the memory of each value, if they are not those of `pointer_names(arguments_of(kernel))`.
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
        self._kernel, self._target, self._code = narrowed(kernel), target, code
        self._pointers = pointers or pointer_names(arguments_of(kernel))
        self._place = (
            linearize(kernel.axes, kernel.shape) if kernel.output_offset is None else kernel.output_offset
        )
        self._varying: dict[Expression, bool] = {}

    def write(self, total: str, axes: Sequence[str], lanes: int, mask: str | None = None) -> None:
        """The instructions for some elements.

        Args:
            total: the name of the sums, of type <lanes x float>, or <lanes x i32> (for INT32 and INT64); a single number, not
                a vector, if `lanes` is 1.
            axes: a name or number, i64, for each axis of `kernel.axes`: the position of the first element. The others are
                after it along the last axis.
            lanes: how many elements there are, a power of two.
            mask: the name (or literal) of a <lanes x i1>: for which elements there are positions; None: for all. Where it does
                not hold, nothing is read or written.
        """
        if self._is_wide:
            total = Vector(self._code, self._target, lanes).cast("sext", "i32", total, "i64")
        names: dict[Expression, str] = dict(zip(self._axes, axes, strict=True))
        names.update(dict.fromkeys(self._sums, total))
        statements = Statements(
            self._code,
            self._target,
            self._pointers,
            names,
            lanes=lanes,
            along=self._axes[-1],
            mask=mask,
            varying=self._varying if lanes > 1 else None,
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
    """What `Epilogue` writes, once."""
    Epilogue(kernel, target, code, pointers).write(total, axes, lanes, mask)


def finish(statements: Statements, kernel: Kernel, pointer: str, place: Expression) -> None:
    """Computes, checks and stores what a kernel gives at the position of `statements`.

    Args:
        statements: with the names of the axes.
        kernel: what is computed.
        pointer: the output.
        place: where the element lies in it.
    """
    for number, (condition, _) in enumerate(kernel.requirements, start=1):
        statements.require(condition, number)
    statements.store(pointer, place, kernel.body)
