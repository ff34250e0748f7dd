"""The compiler's graph: values, and the nodes that compute them.

Every node computes one value. Most nodes are a `Compute`, which has one expression for all elements
of the result. Contractions take most of the run time and have dedicated kernels, so they have
attributes instead of an expression. The bias, rescaling and activation that follow a contraction
are a separate `Compute`, which fusion merges into the contraction's kernel.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import force_setattr

from neurald.drivers.compiler.ir.algorithm import Algorithm
from neurald.drivers.compiler.ir.expression import (
    Apply,
    Axis,
    Constant,
    Expression,
    Load,
    index,
    load,
    sum_of,
)
from neurald.drivers.compiler.ir.extents.extent import Extent, highest, same_length
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Shape, Value

Pair = tuple[int, int]
#: Number of paddings that may follow from the length of an image, since each has code of its own.
MAX_PADDINGS = 4


class RowLimit(Struct, frozen=True, kw_only=True):
    """The number of rows of a value that are needed; the others may have any contents.

    Attributes:
        count: INT32 (), the number of rows that are needed, which are the first ones.
        bound: the number of equal parts, in row-major order, that are the rows.
    """

    count: Value
    bound: int


class Compute(Struct, frozen=True, kw_only=True, eq=False):
    """Computes each element of `output` by an expression of its index.

    Attributes:
        axes: one for each dimension of the output, with the length of that dimension.
        body: the element at `axes`, in the output's type.
        requirements: conditions that must hold at every index, each with the error message of the
            execution that violates it.
        operations: positions in the model of the operations that this node implements.
        limit: the rows that are needed; None for all.
        is_stored: True if storing the elements pays, although they are cheap to compute again.
    """

    output: Value
    axes: tuple[Axis, ...]
    body: Expression
    requirements: tuple[tuple[Expression, str], ...] = ()
    operations: tuple[int, ...] = ()
    limit: RowLimit | None = None
    is_stored: bool = False
    _inputs: list[tuple[Value, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Forgets what a copy with other fields has cached."""
        force_setattr(self, "_inputs", [])

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that it reads, without duplicates."""
        if not self._inputs:
            # Cached, because it is read often and never changes.
            roots = (self.body, *(condition for condition, _ in self.requirements))
            loaded = [each.value for each in walk(*roots) if isinstance(each, Load)]
            if self.limit is not None:
                loaded.append(self.limit.count)
            self._inputs.append(tuple(dict.fromkeys(loaded)))
        return self._inputs[0]

    @property
    def aliased_input(self) -> Value | None:
        """The value that has the output's elements in the same order, or None."""
        if not isinstance(self.body, Load) or self.body.guard is not None or self.requirements:
            return None
        source = self.body.value
        is_same = same_length(source.count, self.output.count) and source.type is self.output.type
        return (
            source
            if is_same and linearize(self.body.index, source.shape) is linearize(self.axes, self.output.shape)
            else None
        )

    @property
    def padding(self) -> tuple[Value, tuple[Pair, ...], Constant] | None:
        """Describes a node that only pads a value with a constant; None for other nodes.

        The tuple holds the value, the numbers of elements added before and after each dimension,
        and the constant.
        """
        body = self.body
        if not isinstance(body, Load) or not isinstance(body.otherwise, Constant) or self.requirements:
            return None
        source, pads = body.value, []
        if len(source.shape) != len(self.axes):
            return None
        for coordinate, along, length in zip(body.index, self.axes, source.shape, strict=True):
            shift = coordinate - along
            if (
                not isinstance(shift, Constant)
                or isinstance(shift.value, Extent)
                or shift.low > 0
                or along.extent + shift.low < length
            ):
                return None
            pads.append((-shift.low, along.extent + shift.low - length))
        expected = inside(body.index, source.shape)
        return (source, tuple(pads), body.otherwise) if body.guard is expected else None


class Convolution(Struct, frozen=True, kw_only=True, eq=False):
    """Computes a convolution.

    output[n, y, x, o] = Σ (input[…] - input_zero) · (weights[o, i, j, c] - weights_zero).

    Outside of the image, input elements are `input_zero`.

    Attributes:
        output: (images, height, width, channels), FLOAT32, INT32 or INT64.
        input: (images, height, width, groups × channels per group).
        weights: (channels, kernel height, kernel width, input channels per group). The channels of
            a group are contiguous.
        stride, dilation: along height and width.
        padding: (before, after) along height and width.
    """

    output: Value
    input: Value
    weights: Value
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: tuple[Pair, Pair] = ((0, 0), (0, 0))
    groups: int = 1
    input_zero: int = 0
    weights_zero: int = 0
    operations: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that it reads."""
        return self.input, self.weights

    @property
    def kernel(self) -> Pair:
        """Height and width of the window."""
        return self.weights.shape[1], self.weights.shape[2]

    @property
    def depth(self) -> int:
        """Number of products summed per element."""
        return math.prod(self.weights.shape[1:])


class DepthwiseConvolution(Struct, frozen=True, kw_only=True, eq=False):
    """Convolves each channel separately: output channel c × multiplier + m reads channel c.

    Attributes:
        output: (images, height, width, channels × multiplier), FLOAT32, INT32 or INT64.
        input: (images, height, width, channels).
        weights: (kernel height, kernel width, channels × multiplier).
        stride, dilation, padding, input_zero, weights_zero: as in `Convolution`.
    """

    output: Value
    input: Value
    weights: Value
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: tuple[Pair, Pair] = ((0, 0), (0, 0))
    input_zero: int = 0
    weights_zero: int = 0
    operations: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that it reads."""
        return self.input, self.weights

    @property
    def kernel(self) -> Pair:
        """Height and width of the window."""
        return self.weights.shape[0], self.weights.shape[1]

    @property
    def depth(self) -> int:
        """Number of products summed per element."""
        return math.prod(self.kernel)

    @property
    def multiplier(self) -> int:
        """Output channels per input channel."""
        return self.weights.shape[2] // self.input.shape[3]


class MatrixProduct(Struct, frozen=True, kw_only=True, eq=False):
    """Computes output[…, m, n] = Σ (left[…, m, k] - left_zero) · (right[…, n, k] - right_zero).

    Dimensions before the last two broadcast as in NumPy.

    Attributes:
        output: (…, m, n), FLOAT32, INT32 or INT64.
        left: (…, m, k), or (…, k, m) if `left_transposed`.
        right: (…, n, k), the layout of weights, or (…, k, n) if `right_transposed`.
    """

    output: Value
    left: Value
    right: Value
    left_transposed: bool = False
    right_transposed: bool = False
    left_zero: int = 0
    right_zero: int = 0
    operations: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that it reads."""
        return self.left, self.right

    @property
    def depth(self) -> int:
        """Number of products summed per element."""
        return self.left.shape[-2 if self.left_transposed else -1]


class TopK(Struct, frozen=True, kw_only=True, eq=False):
    """Computes the indices of the largest elements of each row.

    Element output[…, n] is the index of the n-th largest element of input[…, :]. NaN is larger than
    all numbers, and equal to itself.

    Attributes:
        output: (…, count), INT32.
        input: (…, length), with length >= count.
        prefers_lower_index: whether the lower or the higher index of two equal elements comes
            first.
    """

    output: Value
    input: Value
    prefers_lower_index: bool
    operations: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that it reads."""
        return (self.input,)


class Attention(Struct, frozen=True, kw_only=True, eq=False):
    """Computes output[b, m, d] = Σ_n weights[b, m, n] · value[b, n, d].

    The weights are computed from scores, such as by a softmax; score[b, m, n] is an expression of
    Σ_k query[b, m, k] · key[b, n, k]. Neither scores nor weights are stored. It is part of fused
    kernels only, not of graphs.

    Attributes:
        output: (batches, rows, features), FLOAT32.
        axes: b, m, n, k and d.
        query, key, value: loads at (b, m, k), (b, n, k) and (b, n, d). They have no guards, except
            where a driver lets keys and values be read from what is concatenated.
        score: at (b, m, n); an `AccumulatorRef` is the sum of products.
        scores: stands for the scores (b, m, n). Only `weights` loads it, within its row.
        weights: at (b, m, n).
    """

    output: Value
    axes: tuple[Axis, Axis, Axis, Axis, Axis]
    query: Load
    key: Load
    value: Load
    score: Expression
    scores: Value
    weights: Expression

    @property
    def roots(self) -> tuple[Expression, ...]:
        """The expressions that it computes."""
        return self.query, self.key, self.value, self.score, self.weights

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that it reads."""
        loaded = (each.value for each in walk(*self.roots) if isinstance(each, Load))
        return tuple(value for value in dict.fromkeys(loaded) if value is not self.scores)


class Procedure(Struct, frozen=True, kw_only=True, eq=False):
    """Computes a value by an algorithm whose steps depend on each other.

    Attributes:
        output: the value.
        inputs: the values that the algorithm reads; it reads nothing else, whatever they contain.
        algorithm: the algorithm, which describes the inputs and the output.
    """

    output: Value
    inputs: tuple[Value, ...]
    algorithm: Algorithm
    operations: tuple[int, ...] = ()


class BoundedOutput(Struct, frozen=True, kw_only=True):
    """An output of a graph whose shape is an upper bound.

    Attributes:
        output: its position among the outputs.
        dimension: the dimension of its rows; those before it have length 1.
        count: the position of the output with the number of its rows, INT32 ().
    """

    output: int
    dimension: int
    count: int


Contraction: TypeAlias = Convolution | DepthwiseConvolution | MatrixProduct
#: Nodes with kernels of their own that are not sums of products.
Selection: TypeAlias = TopK | Procedure
Node: TypeAlias = Compute | Contraction | Selection


class Graph(Struct, kw_only=True, eq=False):
    """Nodes in topological order. Passes change it in place.

    Attributes:
        inputs, outputs: the values in the model's order. Outputs may repeat a value and may include
            inputs and constants. The numbers of rows of `bounded` follow them.
        bounded: outputs whose shapes are upper bounds.
    """

    inputs: list[Value]
    outputs: list[Value]
    nodes: list[Node] = field(default_factory=list)
    bounded: tuple["BoundedOutput", ...] = ()

    def producers(self) -> Mapping[Value, Node]:
        """Maps each value to the node that computes it."""
        return {node.output: node for node in self.nodes}

    def consumers(self) -> Mapping[Value, list[Node]]:
        """Maps each value to the nodes that read it, in order."""
        readers: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                readers.setdefault(value, []).append(node)
        return readers

    def remove_unused(self) -> bool:
        """Removes nodes whose results are not read. Returns True if there were any."""
        needed = set(self.outputs)
        kept = []
        for node in reversed(self.nodes):
            if node.output in needed:
                kept.append(node)
                needed.update(node.inputs)
        changed = len(kept) < len(self.nodes)
        self.nodes = kept[::-1]
        return changed


def linearize(indices: Iterable[Expression], shape: Shape) -> Expression:
    """Returns the row-major offset of the element at an index, in elements."""
    terms: dict[Expression, int] = {}
    for coordinate, stride in zip(indices, strides(shape), strict=True):
        terms[coordinate] = terms.get(coordinate, 0) + stride
    return sum_of(terms, 0)


def strides(shape: Shape) -> tuple[int, ...]:
    """Returns the row-major strides of a shape, in elements."""
    return tuple(math.prod(shape[dimension + 1 :]) for dimension in range(len(shape)))


def delinearize(offset: Expression, shape: Shape) -> tuple[Expression, ...]:
    """Returns the index of the element at a row-major offset."""
    return tuple(
        # An axis that has at most one element has no other index.
        (offset // stride) % length if stride * length and highest(length) > 1 else index(0)
        for stride, length in zip(strides(shape), shape, strict=True)
    )


def inside(indices: Iterable[Expression], shape: Shape) -> Expression:
    """Returns a BOOL that is true if the index is inside the shape."""
    holds: Expression = index(0).equals(0)
    for coordinate, length in zip(indices, shape, strict=True):
        holds = holds & (coordinate >= 0) & (coordinate < length)
    return holds


def is_data_movement(body: Expression) -> bool:
    """Returns True if an element is only moved: loaded, selected among loads, or constant."""
    pending, seen = [body], {body}
    while pending:
        each = pending.pop()
        if isinstance(each, Apply) and each.op is Op.SELECT:
            sources = each.arguments[1:]
        elif isinstance(each, Load):
            sources = () if each.otherwise is None else (each.otherwise,)
        elif isinstance(each, Constant):
            continue
        else:
            return False
        new = set(sources) - seen
        seen |= new
        pending += new
    return True


def load_broadcast(value: Value, batches: Sequence[Expression], inner: tuple[Expression, ...]) -> Expression:
    """Loads an element of a matrix or row in a batch that broadcasts to `batches`.

    Args:
        value: the value to read; dimensions before those of `inner` are batches.
        batches: index of the matrix.
        inner: index in the matrix.
    """
    own = value.shape[: len(value.shape) - len(inner)]
    trailing = batches[len(batches) - len(own) :]
    picked = [at * 0 if length == 1 else at for at, length in zip(trailing, own, strict=True)]
    return load(value, (*picked, *inner))
