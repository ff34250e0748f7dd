"""Fuses the nodes of a graph into kernels.

A fused value is computed where it is read, instead of being stored and loaded:

- Data movement is fused into all of its readers if that is cheaper than storing it by the estimate
  of `evaluation_cost`. Mapping one index to another costs almost nothing. Selecting among values,
  as in a concatenation, is evaluated again in each reader, and for each element of a vector. What
  a contraction reads is stored anyway, so other readers load it as well. If the index contains a
  reduction or is expensive, the next rule applies.
- Any other `Compute` is fused into its only reader, if its elements are not recomputed or if they
  are cheap. A reduction is not fused into another reduction, nor into a reader that takes its
  elements in another order if that costs more by the same estimate: each term would be gathered.
- A reduction over whole rows is fused into all of its readers that are generated row by row
  (`is_row_wise`). So are elements computed from such reductions, if only one such kernel reads
  them: the exponentials of a softmax, or the squared differences of a layer normalisation.
- The only reader of a contraction or top-k becomes its epilogue, if it has one element for each
  that the contraction has. A procedure has no epilogue.

The graph's outputs are always stored, and so are elements of nodes that say so, unless the target
recomputes them at less cost.
"""

import math
from collections.abc import Callable, Iterable, Iterator

from neurald.drivers.compiler.ir.expression import (
    Apply,
    Axis,
    Expression,
    Load,
    Reduce,
    axis,
    load,
)
from neurald.drivers.compiler.ir.extents.extent import Extent, estimate, is_one, same_shape
from neurald.drivers.compiler.ir.graph import (
    Compute,
    Convolution,
    Graph,
    MatrixProduct,
    Procedure,
    delinearize,
    is_data_movement,
    linearize,
)
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel, op_cost
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import free_axes
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.evaluation_cost import (
    LOAD_COST,
    STORE_COST,
    evaluation_cost,
    last_axis,
    memory_order,
    range_fraction,
)
from neurald.drivers.compiler.passes.fusion.kernel_joining import (
    MAX_EXPRESSIONS,
    inlined,
    on_producer_axes,
    rearranged,
    reshaped,
    single_kernel,
    substituted,
)
from neurald.hal.records import replace

#: Cost of an element that is recomputed rather than stored.
_MAX_RECOMPUTE_COST = 4
#: Cost of an element of data movement that is fused into every reader.
_MAX_MOVE_COST = 8
#: Returns True if the compiler generates a kernel row by row.
IsRowWise = Callable[[Kernel], bool]


def fuse(
    graph: Graph,
    *,
    enabled: bool = True,
    is_row_wise: IsRowWise | None = None,
    recomputes: bool = False,
    apart: frozenset[Op] = frozenset(),
) -> FusedGraph:
    """Fuses the nodes of a graph into kernels.

    Args:
        graph: the graph, which is not changed.
        enabled: False makes one kernel for each node.
        is_row_wise: returns True if a kernel is generated row by row, see `Kernel.row_axes`.
            Reductions over whole rows are then computed in the kernels that read them, such as
            those of a softmax. Without it, no kernel is row-wise.
        recomputes: True if computing elements again is so cheap that none is stored because its
            node says so (`Compute.is_stored`).
        apart: operations that take longer among the epilogues of contractions than the kernels of
            their own that they get.
    """
    fusion = _Fusion(graph, is_row_wise=is_row_wise, recomputes=recomputes, apart=apart)
    if enabled:
        fusion.run()
    return fusion.result()


class _Fusion:
    def __init__(
        self, graph: Graph, *, is_row_wise: IsRowWise | None, recomputes: bool, apart: frozenset[Op]
    ) -> None:
        self._graph = graph
        self._is_row_wise, self._apart = is_row_wise, apart
        self._stored = set(graph.outputs)
        #: Values that no reader computes, although they are not outputs.
        self._kept = {
            node.output
            for node in graph.nodes
            if isinstance(node, Compute) and node.is_stored and not recomputes
        }
        self._kernels: dict[Value, Kernel] = {}
        self._readers: dict[Value, set[Value]] = {}
        self._order: list[Value] = []
        #: Size of a reader when fusing this value made it too large; larger readers are not tried.
        self._too_large: dict[Value, int] = {}
        #: Whether the readers of data movement evaluate it.
        self._is_moved_by_readers: dict[Kernel, bool] = {}
        self._add_kernels(graph)

    def _add_kernels(self, graph: Graph) -> None:
        """Adds a kernel for each node, and one that copies each output that no node stores alone.

        Such an output is an input, a constant, or a repetition of another output.
        """
        for node in graph.nodes:
            self._add(single_kernel(node))
        self._outputs: list[Value] = []
        for value in graph.outputs:
            if value in self._kernels and value not in self._outputs:
                self._outputs.append(value)
                continue
            copy = Value(value.shape, value.type, name=value.name)
            axes = tuple(axis(length, f"i{d}") for d, length in enumerate(value.shape))
            self._add(Kernel(output=copy, axes=axes, body=load(value, axes)))
            self._stored.add(copy)
            self._outputs.append(copy)

    def _add(self, kernel: Kernel) -> None:
        self._kernels[kernel.output] = kernel
        self._order.append(kernel.output)
        for value in kernel.inputs:
            self._readers.setdefault(value, set()).add(kernel.output)

    def _replace(self, kernel: Kernel) -> None:
        """Replaces the kernel of an output, and drops kernels whose results are no longer read."""
        old = self._kernels[kernel.output]
        self._kernels[kernel.output] = kernel
        for value in kernel.inputs:
            self._readers.setdefault(value, set()).add(kernel.output)
        for value in set(old.inputs) - set(kernel.inputs):
            self._readers[value].discard(kernel.output)
            self._drop_if_unread(value)

    def _drop_if_unread(self, value: Value) -> None:
        """Drops the kernel of a value that is not read, and then those that only this one read."""
        pending = [value]
        while pending:
            unread = pending.pop()
            if self._readers.get(unread) or unread in self._stored or unread not in self._kernels:
                continue
            for each in self._kernels.pop(unread).inputs:
                self._readers[each].discard(unread)
                pending.append(each)

    def run(self) -> None:
        for output in self._order:
            while output in self._kernels and self._step(self._kernels[output]):
                pass
        for position, output in enumerate(self._order):
            if output in self._kernels:
                self._order[position] = self._arrange(self._kernels[output])

    def _free_order(self, kernel: Kernel) -> tuple[Axis, ...] | None:
        """Returns the order of what a kernel loads, if its elements can be stored in this order."""
        if kernel.output in self._stored or kernel.limit is not None or self._is_contracted(kernel.output):
            return None
        return memory_order(kernel)

    def _is_contracted(self, value: Value) -> bool:
        """Returns True if a contraction reads the value, which must be in memory for it."""
        readers = (self._kernels[each] for each in self._readers.get(value, ()))
        return any(each.contraction is not None and value in each.contraction.inputs for each in readers)

    def _is_own_contraction(self, value: Value, reader: Kernel) -> bool:
        """Returns True if a contraction computes a value for one reader only."""
        producer = self._kernels.get(value)
        return (
            producer is not None
            and isinstance(producer.contraction, Convolution | MatrixProduct)
            and self._is_only_reader(producer, reader)
        )

    def _arranged_cost(self, kernel: Kernel) -> float:
        """Returns the cost of a kernel in its order or in that of what it loads."""
        cost, order = evaluation_cost(kernel), self._free_order(kernel)
        return cost if order is None else min(cost, evaluation_cost(replace(kernel, axes=order)))

    def _arrange(self, kernel: Kernel) -> Value:
        """Stores a kernel's elements in the order of what it loads, if that is cheaper.

        Returns the value with the elements.
        """
        value, order = kernel.output, self._free_order(kernel)
        if order is None:
            return value
        readers = [self._kernels[each] for each in self._readers.get(value, ())]
        arranged = Value(tuple(each.extent for each in order), value.type, name=value.name)
        storing = replace(kernel, output=arranged, axes=order)
        reading = [rearranged(each, kernel, storing) for each in readers]
        saved = evaluation_cost(kernel) - evaluation_cost(storing)
        saved += sum(map(self._arranged_cost, readers)) - sum(map(self._arranged_cost, reading))
        pairs = zip((kernel, *readers), (storing, *reading), strict=True)
        if saved <= 0 or not all(self._keeps_rows((before,), after) for before, after in pairs):
            return value
        del self._kernels[value]
        self._kernels[arranged] = storing
        for each in storing.inputs:
            self._readers[each] = self._readers[each] - {value} | {arranged}
        for reader in reading:
            self._kernels[reader.output] = reader
        self._readers[arranged] = self._readers.pop(value)
        return arranged

    def _step(self, kernel: Kernel) -> bool:
        """Fuses one more producer into a kernel. Returns True if there was one."""
        if kernel.contraction is None:
            for value in reversed(kernel.inputs):
                producer = self._kernels.get(value)
                if producer is not None and producer.contraction is not None:
                    joined = self._epilogue(producer, kernel)
                    if joined is not None:
                        self._replace(joined)
                        return True
        stored = () if kernel.contraction is None else kernel.contraction.inputs
        if kernel.limit is not None:
            stored = (*stored, kernel.limit.count)
        for value in kernel.inputs:
            producer = self._kernels.get(value)
            if producer is None or producer.contraction is not None or value in stored:
                continue
            size = len(kernel.expressions)
            if size >= self._too_large.get(value, size + 1):
                continue
            is_row_reduction = self._is_recomputed_row_reduction(producer, kernel)
            if is_row_reduction or self._is_worthwhile(producer, kernel):
                if kernel.aliased_input is value:
                    joined = reshaped(producer, kernel)
                elif _reads_own_index(producer, kernel):
                    joined = on_producer_axes(producer, kernel)
                else:
                    joined = inlined(producer, kernel)
                if joined is not None and not self._keeps_rows((producer, kernel), joined):
                    joined = None
                if joined is not None and is_row_reduction and not self._is_generated_by_rows(joined):
                    joined = joined if self._is_worthwhile(producer, kernel) else None
                if joined is not None:
                    self._replace(joined)
                    return True
                if len(producer.expressions) + size > MAX_EXPRESSIONS:
                    self._too_large[value] = size
        return False

    def _is_only_reader(self, producer: Kernel, reader: Kernel) -> bool:
        is_stored = producer.output in self._stored or producer.output in self._kept
        return not is_stored and self._readers[producer.output] == {reader.output}

    def _epilogue(self, producer: Kernel, reader: Kernel) -> Kernel | None:
        """Returns the contraction with the reader as its epilogue, or None if it cannot be one."""
        if isinstance(producer.contraction, Procedure):
            return None
        # Functions of bytes become tables, which take no longer in an epilogue.
        if reader.output.type.size_bytes > 1 and any(
            isinstance(each, Apply) and each.op in self._apart for each in reader.expressions
        ):
            return None
        if not self._is_only_reader(producer, reader) or math.prod(reader.shape) != math.prod(producer.shape):
            return None
        expected = linearize(reader.axes, reader.shape)
        for each, times in _loads(reader):
            if each.value is not producer.output:
                continue
            if not is_one(times) or each.guard is not None:
                return None
            if linearize(each.index, each.value.shape) is not expected:
                return None
        # Elements are now indexed by the contraction's axes.
        offset = linearize(producer.axes, producer.shape)
        where: dict[Expression, Expression] = dict(
            zip(reader.axes, delinearize(offset, reader.shape), strict=True)
        )

        def replacement(expression: Expression) -> Expression | None:
            is_sum = isinstance(expression, Load) and expression.value is producer.output
            return producer.body if is_sum else where.get(expression)

        joined = substituted(producer, reader, replacement)
        return (
            None if joined is None else replace(joined, axes=producer.axes, contraction=producer.contraction)
        )

    def _is_recomputed_row_reduction(self, producer: Kernel, reader: Kernel) -> bool:
        """Returns True if the producer reduces rows, and all readers need one reduction per row.

        If another reader needs the stored result, loading it is faster than computing it again.
        """
        if self._is_row_wise is None or producer.requirements or producer.output in self._stored:
            return False
        readers = (self._kernels[output] for output in self._readers[producer.output])
        if not all(_reduces_once_per_row(producer, each) for each in (reader, *readers)):
            return False
        # What is going to be stored in another order has no rows.
        loaded = (self._kernels.get(value) for each in (producer, reader) for value in each.inputs)
        return all(each is None or each is producer or self._free_order(each) is None for each in loaded)

    def _keeps_rows(self, kernels: Iterable[Kernel], joined: Kernel) -> bool:
        """Returns True if the kernel still computes each reduction once per row."""
        has_rows = self._is_row_wise is not None and any(each.row_axes is not None for each in kernels)
        return not has_rows or self._is_generated_by_rows(joined)

    def _is_generated_by_rows(self, kernel: Kernel) -> bool:
        return self._is_row_wise is not None and self._is_row_wise(kernel)

    def _is_worthwhile(self, producer: Kernel, reader: Kernel) -> bool:
        """Returns True if fusing saves more than is recomputed, by the rules of this module."""
        if producer.requirements:
            return False
        is_movement = (
            is_data_movement(producer.body)
            and not producer.has_reduction
            and _element_cost(producer) <= _MAX_MOVE_COST
        )
        if is_movement:
            return self._is_moved(producer)
        if not self._is_only_reader(producer, reader):
            return False
        if not producer.has_reduction and _is_in_ranges(producer) and not self._is_moved(producer):
            return False
        # The elements of a contraction are not divided into ranges, and reductions are long.
        is_divided = reader.contraction is None and not producer.has_reduction
        loaded, is_in_reduction, last = 0.0, False, last_axis(reader)
        for each, count in _loads(reader):
            if each.value is producer.output:
                guard = each.guard if is_divided else None
                fraction = None if guard is None else range_fraction(guard, last)
                elements = estimate(math.prod(reader.shape) * count)
                loaded += elements * (1.0 if fraction is None else fraction)
                is_in_reduction |= not is_one(count)
        is_recomputed = loaded > estimate(math.prod(producer.shape))
        if producer.has_reduction:
            if is_recomputed or is_in_reduction:
                return self._joins_rows(producer, reader)
            return _reads_own_index(producer, reader) or _is_cheaper_joined(producer, reader)
        return not is_recomputed or _element_cost(producer) <= _MAX_RECOMPUTE_COST

    def _is_moved(self, producer: Kernel) -> bool:
        """Returns True if the readers of data movement evaluate it, instead of loading it."""
        known = self._is_moved_by_readers.get(producer)
        if known is None:
            known = self._is_moved_by_readers[producer] = self._is_cheaper_in_readers(producer)
        return known

    def _is_cheaper_in_readers(self, producer: Kernel) -> bool:
        """Returns True if readers evaluate data movement at less cost than storing it."""
        value = producer.output
        if producer.aliased_input is not None:
            return True
        if value in self._stored or self._is_contracted(value):
            return False
        readers = [self._kernels[each] for each in self._readers[value]]
        if isinstance(producer.body, Load) and producer.body.guard is None:
            return True
        joined = [inlined(producer, each) for each in readers]
        stored = evaluation_cost(producer) + sum(map(evaluation_cost, readers))
        # Contractions store what only a concatenation reads in place.
        stored -= (LOAD_COST + STORE_COST) * sum(
            estimate(each.value.count)
            for each, _ in _loads(producer)
            if each.guard is not None and self._is_own_contraction(each.value, producer)
        )
        return stored >= sum(
            evaluation_cost(before if after is None else after)
            for before, after in zip(readers, joined, strict=True)
        )

    def _joins_rows(self, producer: Kernel, reader: Kernel) -> bool:
        """Returns True if a row-wise reader computes each element of a row at most twice.

        The first time is for a reduction, and cheap elements are computed again after it; expensive
        ones are kept if they are what is reduced.
        """
        if self._is_row_wise is None or producer.row_axes is None:
            return False
        loaded = {
            each for each in reader.expressions if isinstance(each, Load) and each.value is producer.output
        }
        is_kept = any(isinstance(each, Reduce) and each.body in loaded for each in reader.expressions)
        is_cheap = _element_cost(producer) <= _MAX_RECOMPUTE_COST
        return len(loaded) == 1 or (len(loaded) == 2 and (is_kept or is_cheap))

    def result(self) -> FusedGraph:
        kernels = [self._kernels[output] for output in self._order if output in self._kernels]
        aliases: dict[Value, Value] = {}
        stored = []
        for kernel in kernels:
            source = kernel.aliased_input
            if source is None or source.constant is not None:
                stored.append(kernel)
            elif kernel.output not in self._stored:
                aliases[kernel.output] = aliases.get(source, source)
            elif kernel.limit is None and self._may_write(owner := aliases.get(source, source)):
                # The procedure writes to the output.
                aliases |= {value: kernel.output for value, each in aliases.items() if each is owner}
                aliases[owner] = kernel.output
            else:
                stored.append(kernel)
        return FusedGraph(
            kernels=tuple(stored),
            aliases=aliases,
            inputs=tuple(self._graph.inputs),
            outputs=tuple(self._outputs),
        )

    def _may_write(self, value: Value) -> bool:
        """Returns True if a procedure computes a value, and can write to an output instead."""
        producer = self._kernels.get(value)
        if producer is None or value in self._stored:
            return False
        return isinstance(producer.contraction, Procedure)


def _reads_own_index(producer: Kernel, reader: Kernel) -> bool:
    """Returns True if each element of the reader uses the producer's element at the same index."""
    shapes = producer.shape, producer.output.shape, reader.shape
    if not (same_shape(*shapes[:2]) and same_shape(*shapes[1:])):
        return False
    expected = linearize(reader.axes, reader.shape)
    loaded = [each for each in _loads(reader) if each[0].value is producer.output]
    return all(
        times == 1 and each.guard is None and linearize(each.index, each.value.shape) is expected
        for each, times in loaded
    )


def _is_cheaper_joined(producer: Kernel, reader: Kernel) -> bool:
    """Returns True if evaluating the producer in a reader costs less than storing its elements.

    Each term of a reduction is gathered in a reader that transposes the elements.
    """
    joined = inlined(producer, reader)
    if joined is None:
        return False
    return evaluation_cost(joined) <= evaluation_cost(producer) + evaluation_cost(reader)


def _loads(kernel: Kernel) -> Iterator[tuple[Load, int]]:
    """Yields each load of a kernel, and how often it is executed for one element of the kernel.

    Bodies of reductions are visited once each, since there are exponentially many ways to them
    where reductions read what others scale.
    """
    scopes: dict[Expression, tuple[list[Load], list[Reduce]]] = {}
    # Bodies of inner reductions come before those around them.
    order: list[Expression] = []
    pending = [(root, False) for root in kernel.roots]
    while pending:
        root, is_visited = pending.pop()
        if is_visited:
            order.append(root)
        elif root not in scopes:
            scopes[root] = _scope(root)
            pending.append((root, True))
            pending += ((each.body, False) for each in scopes[root][1])
    times = dict.fromkeys(order, 0)
    for root in kernel.roots:
        times[root] += 1
    for root in reversed(order):
        loads, reductions = scopes[root]
        yield from ((each, times[root]) for each in loads)
        for reduction in reductions:
            times[reduction.body] += times[root] * _extent(reduction.axes)


def _scope(root: Expression) -> tuple[list[Load], list[Reduce]]:
    """Returns the loads and the reductions of an expression outside of its reductions."""
    loads: list[Load] = []
    reductions: list[Reduce] = []
    seen: set[Expression] = set()
    stack = [root]
    while stack:
        expression = stack.pop()
        if expression in seen:
            continue
        seen.add(expression)
        if isinstance(expression, Reduce):
            reductions.append(expression)
            continue
        if isinstance(expression, Load):
            loads.append(expression)
        stack.extend(expression.operands)
    return loads, reductions


def _reduces_once_per_row(producer: Kernel, reader: Kernel) -> bool:
    """Returns True if a reader needs the producer's and its own reductions once per row."""
    if not producer.has_reduction or reader.contraction is not None:
        return False
    rows = math.prod(producer.shape)
    count = next((k for k in range(len(reader.axes) + 1) if math.prod(reader.shape[:k]) == rows), None)
    if count is None:
        return False
    length = math.prod(reader.shape[count:])
    if not isinstance(length, Extent) and length < 2:
        return False
    leading = linearize(reader.axes[:count], reader.shape[:count])
    loaded = [each for each, _ in _loads(reader) if each.value is producer.output]
    if any(
        each.guard is not None or linearize(each.index, each.value.shape) is not leading for each in loaded
    ):
        return False
    allowed = set(reader.axes[:count])
    reductions = [each for each in reader.expressions if isinstance(each, Reduce)]
    return all(free_axes(each) & set(reader.axes) <= allowed for each in reductions)


def _is_in_ranges(kernel: Kernel) -> bool:
    """Returns True if conditions on ranges of indices select among a kernel's expressions."""
    return any(
        isinstance(each, Load) and each.guard is not None and range_fraction(each.guard, None) is not None
        for each in kernel.expressions
    )


def _extent(axes: tuple[Axis, ...]) -> int:
    return math.prod(each.extent for each in axes)


def _element_cost(kernel: Kernel) -> int:
    """Returns the approximate cost of an element, in additions, without its index arithmetic."""
    return sum(
        op_cost(each.op)
        for each in kernel.expressions
        if isinstance(each, Apply) and each.type not in (Scalar.INDEX, Scalar.BOOL)
    )
