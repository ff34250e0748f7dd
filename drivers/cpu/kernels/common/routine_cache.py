"""Caches routines of kernels that differ only in the contents of constants.

Such kernels have the same text, which need not be generated again.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence

from neurald.drivers.compiler.ir.expression import Apply, Axis, Constant, Expression, Linear, Load, Reduce
from neurald.drivers.compiler.ir.graph import Attention
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import arguments_of
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Number of cached routines.
_CACHE_SIZE = 128
#: Routines without arguments; the oldest first.
_cache: dict[Hashable, Routine] = {}
#: Routines without arguments, and the positions of their arguments among those of the kernel.
_repeated: dict[Hashable, tuple[Routine, tuple[int, ...]]] = {}


def shared_routine(
    kernel: Kernel, arguments: Sequence[Value], target: Target, make: Callable[[], Routine]
) -> Routine:
    """Returns the routine of an equivalent kernel, or makes it.

    Args:
        kernel: a kernel with a contraction. Its routine must not depend on the contents of
            constants, except integers in its body.
        arguments: arguments of its function.
        target: the target of the code.
        make: makes the routine.
    """
    return cached_routine(_cache_key(kernel, arguments, target), kernel, arguments, make)


def repeated_routine(kernel: Kernel, target: Target, make: Callable[[], Routine]) -> Routine:
    """Returns the routine of an equivalent kernel without a contraction, or makes it.

    Args:
        kernel: the kernel. Its routine must not depend on the contents of constants, except
            integers in its body.
        target: the target of the code.
        make: makes the routine; its arguments are the output and the inputs, in any order.
    """
    arguments = arguments_of(kernel)
    key = _cache_key(kernel, arguments, target)
    known = None if key is None else _repeated.get(key)
    if key is None or known is None:
        routine = make()
        if key is not None and set(routine.arguments) <= set(arguments):
            while len(_repeated) >= _CACHE_SIZE:
                _repeated.pop(next(iter(_repeated)), None)
            positions = tuple(arguments.index(each) for each in routine.arguments)
            _repeated[key] = replace(routine, arguments=()), positions
        return routine
    routine, positions = known
    return replace(
        routine,
        arguments=tuple(arguments[position] for position in positions),
        operations=kernel.operations,
    )


def cached_routine(
    key: Hashable | None, kernel: Kernel, arguments: Sequence[Value], make: Callable[[], Routine]
) -> Routine:
    """Returns the cached routine for a key, or makes it.

    Args:
        key: equal for kernels whose routines only differ in their arguments; None disables caching.
        kernel: the kernel.
        arguments: arguments of its function.
        make: makes the routine.
    """
    if key is None:
        return make()
    known = _cache.get(key)
    if known is None:
        while len(_cache) >= _CACHE_SIZE:
            _cache.pop(next(iter(_cache)), None)
        known = _cache[key] = replace(make(), arguments=())
    return replace(known, arguments=tuple(arguments), operations=kernel.operations)


def _cache_key(kernel: Kernel, arguments: Sequence[Value], target: Target) -> Hashable | None:
    """Returns a key that is equal for equivalent kernels; None if the kernel cannot be cached."""
    numbers: dict[Expression, int] = {}
    positions = {value: position for position, value in enumerate(arguments)}
    parts: list[Hashable] = []
    axes, expressions, contraction = kernel.axes, kernel.expressions, _contraction(kernel, positions)
    node_roots: tuple[Expression, ...] = ()
    if isinstance(kernel.contraction, Attention):
        node_roots = kernel.contraction.roots
        axes = tuple(dict.fromkeys((*axes, *kernel.contraction.axes)))
        expressions = tuple(walk(*kernel.roots, *node_roots))
        positions[kernel.contraction.scores] = len(positions)
    for axis in axes:
        parts.append(axis.extent)
        numbers[axis] = len(numbers)
    for each in expressions:
        if each in numbers:
            continue
        if isinstance(each, Load) and each.value.constant is not None and not each.type.is_float:
            # Integer constants affect bounds, and with them the code.
            return None
        parts.append((type(each).__name__, each.type, each.low, each.high, *_own(each, numbers, positions)))
        numbers[each] = len(numbers)
    roots = tuple(numbers[each] for each in (*kernel.roots, *node_roots))
    values = tuple((value.shape, value.type, value.constant is None) for value in arguments)
    return (
        target.name,
        target.is_relaxed,
        contraction,
        values,
        tuple(parts),
        roots,
        kernel.output_offset is None,
        # Not every routine reads the number of rows.
        None if kernel.limit is None else (positions.get(kernel.limit.count), kernel.limit.bound),
    )


def _own(each: Expression, numbers: dict[Expression, int], positions: dict[Value, int]) -> Iterator[Hashable]:
    """Yields what distinguishes an expression from others of its class."""
    if isinstance(each, Linear):
        # The order of terms has no meaning, and follows from the addresses of objects.
        yield from sorted((numbers[term], factor) for term, factor in each.terms)
        yield each.constant
        return
    yield from (numbers[operand] for operand in each.operands)
    if isinstance(each, Constant):
        # The key uses repr because 0.0 == -0.0 and NaN != NaN.
        yield repr(each.value)
    elif isinstance(each, Axis):
        yield each.extent
    elif isinstance(each, Load):
        yield from (positions[each.value], each.guard is None)
    elif isinstance(each, Apply):
        yield each.op
    elif isinstance(each, Reduce):
        yield each.reduction
        yield from ((numbers.get(axis), axis.extent) for axis in each.axes)


def _contraction(kernel: Kernel, positions: dict[Value, int]) -> Hashable:
    """Returns the key of a contraction, without the contents of its values."""
    node = kernel.contraction
    if node is None or isinstance(node, Attention):
        return node is not None
    parts: list[Hashable] = [type(node).__name__]
    for name in node.__struct_fields__:
        part = getattr(node, name)
        if isinstance(part, Value):
            part = (positions.get(part), part.shape, part.type, part.constant is None)
        if name != "operations":
            parts.append(part)
    return tuple(parts)
