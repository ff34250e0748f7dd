"""Initialises accumulators with the bias, so that the epilogue need not add it."""

from collections.abc import Mapping

from neurald.drivers.compiler.ir.expression import AccumulatorRef, Apply, Expression
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.traversal import rewrite, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.statements import Statements
from neurald.drivers.cpu.codegen.vector_lanes import VectorLanes
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace


def split_bias(kernel: Kernel) -> tuple[Kernel, Expression | None]:
    """Splits the addition of a bias off a kernel's FLOAT32 sums; the bias is None if there is none.

    Args:
        kernel: has two axes, see `flattened`. A bias only depends on the second one.
    """
    users = [
        each for each in walk(*kernel.roots) if any(isinstance(o, AccumulatorRef) for o in each.operands)
    ]
    if len(users) != 1:
        return kernel, None
    (user,) = users
    if not isinstance(user, Apply) or user.op is not Op.ADD:
        return kernel, None
    sums = [each for each in user.arguments if isinstance(each, AccumulatorRef)]
    others = [each for each in user.arguments if not isinstance(each, AccumulatorRef)]
    if len(others) != 1 or any(each is kernel.axes[0] for each in walk(others[0])):
        return kernel, None
    mapping: dict[Expression, Expression] = {user: sums[0]}
    memory: dict[Expression, Expression] = {}
    requirements = tuple((rewrite(each, mapping.get, memory), text) for each, text in kernel.requirements)
    return replace(kernel, body=rewrite(kernel.body, mapping.get, memory), requirements=requirements), others[
        0
    ]


def initial_sums(
    code: Instructions,
    target: Target,
    kernel: Kernel,
    bias: Expression | None,
    channel: str,
    lanes: int,
    pointers: Mapping[Value, str],
    mask: str | None = None,
) -> str:
    """Returns the initial accumulators of some channels.

    Args:
        code: receives the instructions.
        target: the target of the code.
        kernel: the kernel.
        bias: see `split_bias`.
        channel: name of the first channel.
        lanes: number of channels.
        pointers: names of the values' memory.
        mask: a <lanes x i1>, true for channels that exist; None if all do.
    """
    v = Vector(code, target, lanes)
    if bias is None:
        return v.number("float", 0)
    along = kernel.axes[-1]
    names: dict[Expression, str] = {along: channel}
    return Statements(code, target, pointers, names, lanes=VectorLanes.across(v, along, mask)).value(bias)
