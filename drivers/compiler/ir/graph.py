"""The graph that a compiler works on: values, and the nodes that compute them.

Every node gives one value. Most are a `Compute`: an expression for each element of the result. Contractions, which decide
about speed and for which compilers have kernels of their own, say what they are instead of how each element comes about;
whatever comes after the sum of products (bias, rescaling, activation) is a `Compute` of its own, and fusion joins them.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from neurald.drivers.compiler.ir.expression import Apply, Axis, Constant, Expression, Load, index, sum_of
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Shape, Value

Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Compute:
    """Each element of `output` by an expression of its position.

    Attributes:
        axes: one for each dimension of the output, of its length.
        body: the element at `axes`, of the output's type.
        requirements: what must hold at every position, and what to say where it does not; the execution fails then.
        operations: the positions in the model of the operations that it stands for.
    """

    output: Value
    axes: tuple[Axis, ...]
    body: Expression
    requirements: tuple[tuple[Expression, str], ...] = ()
    operations: tuple[int, ...] = ()
    _inputs: list[tuple[Value, ...]] = field(default_factory=list, init=False, repr=False)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that it reads, each once."""
        if not self._inputs:
            # They are asked for again and again, and stay the same.
            roots = (self.body, *(condition for condition, _ in self.requirements))
            loaded = (each.value for each in walk(*roots) if isinstance(each, Load))
            self._inputs.append(tuple(dict.fromkeys(loaded)))
        return self._inputs[0]

    @property
    def viewed(self) -> Value | None:
        """The value of which the output is the same elements in the same order, in another shape; None: it is none."""
        if not isinstance(self.body, Load) or self.body.guard is not None or self.requirements:
            return None
        source = self.body.value
        is_same = source.count == self.output.count and source.type is self.output.type
        return (
            source
            if is_same and flat(self.body.index, source.shape) is flat(self.axes, self.output.shape)
            else None
        )

    @property
    def padding(self) -> tuple[Value, tuple[Pair, ...], Constant] | None:
        """What is padded, how far at both ends of each dimension, and with what; None: the output is no such thing."""
        body = self.body
        if not isinstance(body, Load) or not isinstance(body.otherwise, Constant) or self.requirements:
            return None
        source, pads = body.value, []
        if len(source.shape) != len(self.axes):
            return None
        for place, along, length in zip(body.index, self.axes, source.shape, strict=True):
            shift = place - along
            if not isinstance(shift, Constant) or shift.low > 0 or along.extent + shift.low < length:
                return None
            pads.append((-shift.low, along.extent + shift.low - length))
        expected = inside(body.index, source.shape)
        return (source, tuple(pads), body.otherwise) if body.guard is expected else None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Convolution:
    """Sums over windows: output[n, y, x, o] = Σ (input[…] - input_zero) · (weights[o, i, j, c] - weights_zero).

    Outside of the image the input counts as `input_zero`.

    Attributes:
        output: (images, height, width, channels), FLOAT32, INT32 or INT64.
        input: (images, height, width, groups × channels of each).
        weights: (channels, kernel height, kernel width, channels of each); the channels of one group follow one another.
        stride, dilation: along height and width.
        padding: before and after, along height and width.
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
        """How many products each element sums."""
        return math.prod(self.weights.shape[1:])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DepthwiseConvolution:
    """The same for each channel by itself: output channel c × multiplier + m reads input channel c.

    Attributes:
        output: (images, height, width, channels × multiplier), FLOAT32, INT32 or INT64.
        input: (images, height, width, channels).
        weights: (kernel height, kernel width, channels × multiplier).
        stride, dilation, padding, input_zero, weights_zero: as those of `Convolution`.
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
        """How many products each element sums."""
        return math.prod(self.kernel)

    @property
    def multiplier(self) -> int:
        """Output channels for each input channel."""
        return self.weights.shape[2] // self.input.shape[3]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MatrixProduct:
    """output[…, m, n] = Σ (left[…, m, k] - left_zero) · (right[…, n, k] - right_zero).

    Dimensions before the last two broadcast, as NumPy does.

    Attributes:
        output: (…, m, n), FLOAT32, INT32 or INT64.
        left: (…, m, k), or (…, k, m) if `left_transposed`.
        right: (…, n, k), as weights are stored, or (…, k, n) if `right_transposed`.
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
        """How many products each element sums."""
        return self.left.shape[-2 if self.left_transposed else -1]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ranking:
    """Where the largest elements of rows are: output[…, n] is the place of the n-th in input[…, :], the largest first.

    What is not a number is larger than all numbers, and equal to itself.

    Attributes:
        output: (…, count), INT32.
        input: (…, length), where the length is at least the count.
        is_first_first: of equal elements, whether the one with the smaller index comes first, or the other one.
    """

    output: Value
    input: Value
    is_first_first: bool
    operations: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that it reads."""
        return (self.input,)


Contraction: TypeAlias = Convolution | DepthwiseConvolution | MatrixProduct
Node: TypeAlias = Compute | Contraction | Ranking


@dataclass(kw_only=True, slots=True, eq=False)
class Graph:
    """Nodes in an order in which they can be computed. Transformations change it in place.

    Attributes:
        inputs, outputs: in the order of the model's. A value may be several outputs, and inputs and constants may be outputs.
    """

    inputs: list[Value]
    outputs: list[Value]
    nodes: list[Node] = field(default_factory=list)

    def producers(self) -> Mapping[Value, Node]:
        """The node that computes each value."""
        return {node.output: node for node in self.nodes}

    def consumers(self) -> Mapping[Value, list[Node]]:
        """The nodes that read each value, in order."""
        readers: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                readers.setdefault(value, []).append(node)
        return readers

    def remove_unused(self) -> bool:
        """Drops nodes whose values nobody reads; whether there were any."""
        needed = set(self.outputs)
        kept = []
        for node in reversed(self.nodes):
            if node.output in needed:
                kept.append(node)
                needed.update(node.inputs)
        changed = len(kept) < len(self.nodes)
        self.nodes = kept[::-1]
        return changed


def flat(position: Iterable[Expression], shape: Shape) -> Expression:
    """Where an element lies, counted in elements from the first."""
    terms: dict[Expression, int] = {}
    for place, stride in zip(position, strides(shape), strict=True):
        terms[place] = terms.get(place, 0) + stride
    return sum_of(terms, 0)


def strides(shape: Shape) -> tuple[int, ...]:
    """How many elements lie between neighbours along each dimension."""
    return tuple(math.prod(shape[dimension + 1 :]) for dimension in range(len(shape)))


def unflat(place: Expression, shape: Shape) -> tuple[Expression, ...]:
    """The position of the element that lies at `place`."""
    return tuple(
        (place // stride) % length if stride * length else index(0)
        for stride, length in zip(strides(shape), shape, strict=True)
    )


def inside(position: Iterable[Expression], shape: Shape) -> Expression:
    """BOOL: whether the position is one of that shape."""
    holds: Expression = index(0).equals(0)
    for place, length in zip(position, shape, strict=True):
        holds = holds & (place >= 0) & (place < length)
    return holds


def is_movement(body: Expression) -> bool:
    """Whether an element is only moved: read from somewhere, or a constant."""
    pending, seen = [body], {body}
    while pending:
        each = pending.pop()
        if isinstance(each, Apply) and each.op is Op.SELECT:
            sides = set(each.arguments[1:]) - seen
            seen |= sides
            pending += sides
        elif not isinstance(each, Load | Constant):
            return False
    return True


def loads(root: Expression) -> Iterator[Load]:
    """What an expression reads."""
    return (each for each in walk(root) if isinstance(each, Load))
