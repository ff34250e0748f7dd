"""Which nodes become one kernel.

A value that nobody else needs is computed where it is read, instead of being stored and read back:

- What only moves elements is computed wherever it is read: a position is mapped to another one, which costs next to nothing.
  Where the position is itself folded or takes long to compute, it counts as any other.
- Any other `Compute` is computed in its reader if that is the only one, and if that does not mean to compute its elements
  over and over, or if those are cheap. One that folds is never computed inside another fold.
- A fold of a whole row is computed in its readers, if the compiler asks for it (`rows`).
- What reads a contraction element by element becomes its epilogue, if it is the only reader.

The values of the graph's outputs are always stored, whoever else reads them.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from neurald.drivers.compiler.ir.expression import (
    Apply,
    Axis,
    Constant,
    Expression,
    Load,
    Reduce,
    accumulated,
    axis,
    load,
    select,
)
from neurald.drivers.compiler.ir.graph import (
    Compute,
    Contraction,
    Graph,
    Node,
    Ranking,
    flat,
    is_movement,
    unflat,
)
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel, weight_of
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import depth, free_axes, rewrite, substitute
from neurald.drivers.compiler.ir.value import Value

#: Elements that cost no more are computed again rather than stored.
_CHEAP = 4
#: What is moved is computed wherever it is read, unless it costs more than this to say from where.
_CHEAP_MOVE = 8
#: A kernel that grows beyond this is not fused any further: compilers get slow, and registers few.
_MAXIMUM_EXPRESSIONS = 400
_MAXIMUM_INPUTS = 16
#: Nor does one whose expressions are nested more deeply: whatever goes through them does so level by level.
_MAXIMUM_DEPTH = 100

#: What an expression is replaced by; None keeps it.
Replace = Callable[[Expression], Expression | None]
#: Whether a compiler computes a kernel row by row.
Rows = Callable[[Kernel], bool]


def fuse(graph: Graph, *, enabled: bool = True, rows: Rows | None = None) -> FusedGraph:
    """The kernels of a graph.

    Args:
        graph: is not changed.
        enabled: otherwise there is one for each node.
        rows: whether the compiler computes such a kernel row by row, see `Kernel.row_axes`. Folds of whole rows are then
            computed in the kernels that read them for every element of the row, as in a softmax. None: no kernel.
    """
    fusion = _Fusion(graph, rows=rows)
    if enabled:
        fusion.run()
    return fusion.result()


class _Fusion:
    def __init__(self, graph: Graph, *, rows: Rows | None) -> None:
        self._graph = graph
        self._rows = rows
        self._kept = set(graph.outputs)
        self._kernels: dict[Value, Kernel] = {}
        self._readers: dict[Value, set[Value]] = {}
        self._order: list[Value] = []
        #: How large a reader was that was not joined with what it reads because of that: larger ones are not tried.
        self._too_large: dict[Value, int] = {}
        self._add_stored_outputs(graph)

    def _add_stored_outputs(self, graph: Graph) -> None:
        """The nodes as kernels; inputs, constants and values that come twice among the outputs are copied."""
        for node in graph.nodes:
            self._add(_kernel(node))
        self._outputs: list[Value] = []
        for value in graph.outputs:
            if value in self._kernels and value not in self._outputs:
                self._outputs.append(value)
                continue
            copy = Value(value.shape, value.type, name=value.name)
            axes = tuple(axis(length, f"i{d}") for d, length in enumerate(value.shape))
            self._add(Kernel(output=copy, axes=axes, body=load(value, axes)))
            self._kept.add(copy)
            self._outputs.append(copy)

    def _add(self, kernel: Kernel) -> None:
        self._kernels[kernel.output] = kernel
        self._order.append(kernel.output)
        for value in kernel.inputs:
            self._readers.setdefault(value, set()).add(kernel.output)

    def _replace(self, kernel: Kernel) -> None:
        """Another kernel for the same output; what nobody reads any more is dropped."""
        old = self._kernels[kernel.output]
        self._kernels[kernel.output] = kernel
        for value in kernel.inputs:
            self._readers.setdefault(value, set()).add(kernel.output)
        for value in set(old.inputs) - set(kernel.inputs):
            self._readers[value].discard(kernel.output)
            self._drop_if_unread(value)

    def _drop_if_unread(self, value: Value) -> None:
        """Drops the kernel of a value that nobody reads, and those that only it has read."""
        pending = [value]
        while pending:
            unread = pending.pop()
            if self._readers.get(unread) or unread in self._kept or unread not in self._kernels:
                continue
            for each in self._kernels.pop(unread).inputs:
                self._readers[each].discard(unread)
                pending.append(each)

    def run(self) -> None:
        for output in self._order:
            while output in self._kernels and self._step(self._kernels[output]):
                pass

    def _step(self, kernel: Kernel) -> bool:
        """Computes one more of the values that a kernel reads inside it; whether there was one."""
        if kernel.contraction is None:
            for value in reversed(kernel.inputs):
                producer = self._kernels.get(value)
                if producer is not None and producer.contraction is not None:
                    joined = self._epilogue(producer, kernel)
                    if joined is not None:
                        self._replace(joined)
                        return True
        contracted = () if kernel.contraction is None else kernel.contraction.inputs
        for value in kernel.inputs:
            producer = self._kernels.get(value)
            if producer is None or producer.contraction is not None or value in contracted:
                continue
            size = len(kernel.expressions)
            if size >= self._too_large.get(value, size + 1):
                continue
            is_of_rows = self._is_fold_of_rows(producer, kernel)
            if is_of_rows or self._is_worthwhile(producer, kernel):
                if kernel.viewed is value:
                    joined = _reshaped(producer, kernel)
                elif _is_same_position(producer, kernel):
                    joined = _renamed(producer, kernel)
                else:
                    joined = _inlined(producer, kernel)
                if joined is not None and not self._keeps_rows((producer, kernel), joined):
                    joined = None
                if joined is not None and is_of_rows and not self._is_row_by_row(joined):
                    joined = joined if self._is_worthwhile(producer, kernel) else None
                if joined is not None:
                    self._replace(joined)
                    return True
                if len(producer.expressions) + size > _MAXIMUM_EXPRESSIONS:
                    self._too_large[value] = size
        return False

    def _is_only_reader(self, producer: Kernel, reader: Kernel) -> bool:
        return producer.output not in self._kept and self._readers[producer.output] == {reader.output}

    def _epilogue(self, producer: Kernel, reader: Kernel) -> Kernel | None:
        """The contraction with the reader as its epilogue, None where it is none."""
        if not self._is_only_reader(producer, reader) or math.prod(reader.shape) != math.prod(producer.shape):
            return None
        expected = flat(reader.axes, reader.shape)
        for each, times in _loads(reader):
            if each.value is not producer.output:
                continue
            if times > 1 or each.guard is not None or flat(each.index, each.value.shape) is not expected:
                return None
        # The position is now that of the contraction.
        place = flat(producer.axes, producer.shape)
        where: dict[Expression, Expression] = dict(zip(reader.axes, unflat(place, reader.shape), strict=True))

        def found(expression: Expression) -> Expression | None:
            is_sum = isinstance(expression, Load) and expression.value is producer.output
            return producer.body if is_sum else where.get(expression)

        joined = _joined(producer, reader, found)
        return (
            None if joined is None else replace(joined, axes=producer.axes, contraction=producer.contraction)
        )

    def _is_fold_of_rows(self, producer: Kernel, reader: Kernel) -> bool:
        """Whether a producer folds what is worth folding again in each reader, if that is computed row by row."""
        if self._rows is None or producer.requirements or producer.output in self._kept:
            return False
        return _is_of_rows(producer, reader)

    def _keeps_rows(self, kernels: Iterable[Kernel], joined: Kernel) -> bool:
        """Whether folds of the rows of two kernels are not computed for every element by themselves once these are one."""
        is_of_rows = self._rows is not None and any(each.row_axes is not None for each in kernels)
        return not is_of_rows or self._is_row_by_row(joined)

    def _is_row_by_row(self, kernel: Kernel) -> bool:
        return self._rows is not None and self._rows(kernel)

    def _is_worthwhile(self, producer: Kernel, reader: Kernel) -> bool:
        if producer.requirements:
            return False
        moves = is_movement(producer.body) and not producer.has_reduction and _weight(producer) <= _CHEAP_MOVE
        if not moves and not self._is_only_reader(producer, reader):
            return False
        if moves:
            return True
        times, is_folded = 0, False
        for each, count in _loads(reader):
            if each.value is producer.output:
                times += math.prod(reader.shape) * count
                is_folded |= count > 1
        again = times > math.prod(producer.shape)
        if producer.has_reduction:
            return not again and not is_folded
        return not again or _weight(producer) <= _CHEAP

    def result(self) -> FusedGraph:
        kernels = [self._kernels[output] for output in self._order if output in self._kernels]
        aliases: dict[Value, Value] = {}
        stored = []
        for kernel in kernels:
            source = kernel.viewed
            if source is None or kernel.output in self._kept or source.constant is not None:
                stored.append(kernel)
            else:
                aliases[kernel.output] = aliases.get(source, source)
        return FusedGraph(
            kernels=tuple(stored),
            aliases=aliases,
            inputs=tuple(self._graph.inputs),
            outputs=tuple(self._outputs),
        )


def _kernel(node: Node) -> Kernel:
    """The kernel of one node."""
    if isinstance(node, Compute):
        return Kernel(
            output=node.output,
            axes=node.axes,
            body=node.body,
            requirements=node.requirements,
            operations=node.operations,
        )
    return _plain(node)


def _plain(node: Contraction | Ranking) -> Kernel:
    axes = tuple(axis(length, f"i{d}") for d, length in enumerate(node.output.shape))
    return Kernel(
        output=node.output,
        axes=axes,
        body=accumulated(node.output.type),
        contraction=node,
        operations=node.operations,
    )


def _is_same_position(producer: Kernel, reader: Kernel) -> bool:
    """Whether a reader needs the producer's element at its own position, and no other."""
    if not producer.shape == producer.output.shape == reader.shape:
        return False
    expected = flat(reader.axes, reader.shape)
    found = [each for each in _loads(reader) if each[0].value is producer.output]
    return all(
        times == 1 and each.guard is None and flat(each.index, each.value.shape) is expected
        for each, times in found
    )


def _reshaped(producer: Kernel, reader: Kernel) -> Kernel:
    """The producer for a reader that only gives its elements another shape: positions stay what they were made for."""
    operations = tuple(sorted({*producer.operations, *reader.operations}))
    return replace(producer, output=reader.output, operations=operations)


def _renamed(producer: Kernel, reader: Kernel) -> Kernel | None:
    """The reader at the producer's axes, with the producer's body as it is: in long chains that is the larger one."""
    where: dict[Expression, Expression] = dict(zip(reader.axes, producer.axes, strict=True))

    def found(expression: Expression) -> Expression | None:
        is_read = isinstance(expression, Load) and expression.value is producer.output
        return producer.body if is_read else where.get(expression)

    joined = _joined(producer, reader, found)
    return None if joined is None else replace(joined, axes=producer.axes)


def _inlined(producer: Kernel, reader: Kernel) -> Kernel | None:
    """The reader with every load of the producer's value replaced by what it is."""

    def found(expression: Expression) -> Expression | None:
        if not isinstance(expression, Load) or expression.value is not producer.output:
            return None
        index = expression.index
        if producer.output.shape != producer.shape:
            index = unflat(flat(index, producer.output.shape), producer.shape)
        body = substitute(producer.body, dict(zip(producer.axes, index, strict=True)))
        if expression.guard is None or expression.otherwise is None:
            return body
        return guarded(body, expression.guard, expression.otherwise)

    return _joined(producer, reader, found)


def _joined(producer: Kernel, reader: Kernel, found: Replace) -> Kernel | None:
    """The reader rewritten, None where it gets too large."""
    memory: dict[Expression, Expression] = {}
    joined = replace(
        reader,
        body=rewrite(reader.body, found, memory),
        requirements=tuple(
            (rewrite(condition, found, memory), text) for condition, text in reader.requirements
        ),
        operations=tuple(sorted({*producer.operations, *reader.operations})),
    )
    is_small = len(joined.expressions) <= _MAXIMUM_EXPRESSIONS and len(joined.inputs) <= _MAXIMUM_INPUTS
    return joined if is_small and _is_flat(joined) else None


def _is_flat(kernel: Kernel) -> bool:
    """Whether the expressions of a kernel are nested no more deeply than they may be."""
    return len(kernel.expressions) <= _MAXIMUM_DEPTH or depth(kernel.expressions) <= _MAXIMUM_DEPTH


def guarded(body: Expression, guard: Expression, otherwise: Expression) -> Expression:
    """`body` where the guard holds, else `otherwise`; nothing of the body is read where it does not hold."""

    def protect(expression: Expression) -> Expression | None:
        if not isinstance(expression, Load):
            return None
        if expression.guard is None:
            return load(expression.value, expression.index, guard)
        return load(expression.value, expression.index, guard & expression.guard, expression.otherwise)

    protected = rewrite(body, protect, {})
    if isinstance(body, Load) and isinstance(protected, Load):
        if body.guard is None:
            return load(protected.value, protected.index, guard, otherwise)
        if body.otherwise is otherwise and isinstance(otherwise, Constant):
            return protected
    return select(guard, protected, otherwise)


def _loads(kernel: Kernel) -> Iterator[tuple[Load, int]]:
    """What a kernel's expressions read, and how often for each position of the kernel."""
    scopes: list[tuple[Expression, int]] = [(root, 1) for root in kernel.roots]
    while scopes:
        root, times = scopes.pop()
        seen: set[Expression] = set()
        stack = [root]
        while stack:
            expression = stack.pop()
            if expression in seen:
                continue
            seen.add(expression)
            if isinstance(expression, Reduce):
                scopes.append((expression.body, times * _extent(expression.axes)))
                continue
            if isinstance(expression, Load):
                yield expression, times
            stack.extend(expression.operands)


def _is_of_rows(producer: Kernel, reader: Kernel) -> bool:
    """Whether a reader needs the producer's folds once for each of its rows, and folds nothing else."""
    if not producer.has_reduction or reader.contraction is not None:
        return False
    rows = math.prod(producer.shape)
    count = next((k for k in range(len(reader.axes) + 1) if math.prod(reader.shape[:k]) == rows), None)
    if count is None or math.prod(reader.shape[count:]) < 2:
        return False
    leading = flat(reader.axes[:count], reader.shape[:count])
    found = [each for each, _ in _loads(reader) if each.value is producer.output]
    if any(each.guard is not None or flat(each.index, each.value.shape) is not leading for each in found):
        return False
    allowed = set(reader.axes[:count])
    folds = [each for each in reader.expressions if isinstance(each, Reduce)]
    return all(free_axes(each) & set(reader.axes) <= allowed for each in folds)


def _extent(axes: tuple[Axis, ...]) -> int:
    return math.prod(each.extent for each in axes)


def _weight(kernel: Kernel) -> int:
    """About how many additions an element costs, index arithmetic apart."""
    return sum(
        weight_of(each.op)
        for each in kernel.expressions
        if isinstance(each, Apply) and each.type not in (Scalar.INDEX, Scalar.BOOL)
    )
