"""Kernels that are alike: those that only differ in what their values hold have functions of the same text, which is written once."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import fields, replace

from neurald.drivers.compiler.ir.expression import Apply, Axis, Constant, Expression, Linear, Load, Reduce
from neurald.drivers.compiler.ir.graph import Value
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu.routine import Routine
from neurald.drivers.cpu.target import Target

#: So many routines are kept for kernels to come.
_MAX_KEPT = 128
#: Without their arguments; the oldest first.
_kept: dict[Hashable, Routine] = {}


def shared(
    kernel: Kernel, arguments: Sequence[Value], target: Target, make: Callable[[], Routine]
) -> Routine:
    """The routine of a kernel, as it was made for one that is alike, or is made now.

    Args:
        kernel: with a contraction. What is made of it does not depend on what constants hold, integers in its body apart.
        arguments: of its function.
        target: what it is for.
        make: makes the routine.
    """
    return alike(_likeness(kernel, arguments, target), kernel, arguments, make)


def alike(
    key: Hashable | None, kernel: Kernel, arguments: Sequence[Value], make: Callable[[], Routine]
) -> Routine:
    """The routine that was made for a kernel of the same key, or is made now.

    Args:
        key: is the same for kernels whose routines only differ in their arguments; None: for no others.
        kernel: what the routine is for.
        arguments: of its function.
        make: makes the routine.
    """
    if key is None:
        return make()
    known = _kept.get(key)
    if known is None:
        while len(_kept) >= _MAX_KEPT:
            _kept.pop(next(iter(_kept)), None)
        known = _kept[key] = replace(make(), arguments=())
    return replace(known, arguments=tuple(arguments), operations=kernel.operations)


def _likeness(kernel: Kernel, arguments: Sequence[Value], target: Target) -> Hashable | None:
    """What is the same for kernels that are alike; None where nothing can be told."""
    numbers: dict[Expression, int] = {}
    places = {value: place for place, value in enumerate(arguments)}
    parts: list[Hashable] = []
    for axis in kernel.axes:
        parts.append(axis.extent)
        numbers[axis] = len(numbers)
    for each in kernel.expressions:
        if each in numbers:
            continue
        if isinstance(each, Load) and each.value.constant is not None and not each.type.is_float:
            # Bounds follow from what it holds.
            return None
        parts.append((type(each).__name__, each.type, each.low, each.high, *_own(each, numbers, places)))
        numbers[each] = len(numbers)
    roots = tuple(numbers[each] for each in kernel.roots)
    values = tuple((value.shape, value.type, value.constant is None) for value in arguments)
    return (
        target.name,
        _contraction(kernel, places),
        values,
        tuple(parts),
        roots,
        kernel.output_offset is None,
    )


def _own(each: Expression, numbers: dict[Expression, int], places: dict[Value, int]) -> Iterator[Hashable]:
    """What tells an expression from others of its class."""
    yield from (numbers[operand] for operand in each.operands)
    if isinstance(each, Constant):
        # As text, because 0.0 and -0.0 are equal, and NaN is not.
        yield repr(each.value)
    elif isinstance(each, Axis):
        yield each.extent
    elif isinstance(each, Linear):
        yield from (factor for _, factor in each.terms)
        yield each.constant
    elif isinstance(each, Load):
        yield from (places[each.value], each.guard is None)
    elif isinstance(each, Apply):
        yield each.op
    elif isinstance(each, Reduce):
        yield each.reduction
        yield from ((numbers.get(axis), axis.extent) for axis in each.axes)


def _contraction(kernel: Kernel, places: dict[Value, int]) -> Hashable:
    """What a contraction is, apart from what its values hold."""
    node = kernel.contraction
    if node is None:
        return None
    parts: list[Hashable] = [type(node).__name__]
    for each in fields(node):
        part = getattr(node, each.name)
        if isinstance(part, Value):
            part = (places.get(part), part.shape, part.type, part.constant is None)
        if each.name != "operations":
            parts.append(part)
    return tuple(parts)
