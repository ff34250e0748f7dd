"""Finds values of loops whose lengths no conversion infers, before the body is converted.

A body is converted again with wider dimensions if its results have them. Lengths that follow from
the values of the loop, such as those of a list of which a turn replaces an element, are never
inferred, and neither is what is computed from such a list.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from neurald.hal.model.types import Dimensions
from neurald.runtime.tflite.file.schema import TfliteSubgraph
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator as B
from neurald.runtime.tflite.graph.callees import called_subgraphs
from neurald.runtime.tflite.graph.operands import common_dimensions, expected_dimensions

#: How often values of a loop are found that make others uninferred. What is found later is left to
#: the conversion of the body.
_MAX_ROUNDS: Final = 4
#: Operators whose results have the lengths that are the values of an input: its position.
_LENGTHS: Final = {B.SLICE: 2, B.RESHAPE: 1}
#: Operators whose results follow from the shape of their input, or from its rank.
_SHAPES: Final = frozenset((B.SHAPE, B.ZEROS_LIKE))
_QUERIES: Final = frozenset((*_SHAPES, B.RANK))
#: Operators whose results are only inferred from inputs of known shapes.
_FOLLOWING: Final = frozenset(
    (
        *(B.ADD, B.SUB, B.MUL, B.DIV, B.MAXIMUM, B.MINIMUM, B.SQUARED_DIFFERENCE),
        *(B.EQUAL, B.NOT_EQUAL, B.LESS, B.LESS_EQUAL, B.GREATER, B.GREATER_EQUAL),
        *(B.LOGICAL_AND, B.LOGICAL_OR, B.LOGICAL_NOT, B.SELECT, B.SELECT_V2),
        *(B.ABS, B.NEG, B.EXP, B.LOG, B.SQRT, B.RSQRT, B.SQUARE, B.CAST, B.QUANTIZE, B.DEQUANTIZE),
        *(B.RELU, B.RELU6, B.LOGISTIC, B.TANH, B.ELU, B.LEAKY_RELU, B.SOFTMAX),
        *(B.SUM, B.MEAN, B.REDUCE_MAX, B.REDUCE_MIN, B.REDUCE_PROD, B.REDUCE_ANY, B.REDUCE_ALL),
        *(B.CONCATENATION, B.EXPAND_DIMS, B.PACK, B.TRANSPOSE, B.SPLIT, B.GATHER, B.TILE),
        *(B.RESHAPE, B.SLICE, B.STRIDED_SLICE),
        *(B.FULLY_CONNECTED, B.CONV_2D, B.DEPTHWISE_CONV_2D),
    )
)


class LoopDimensions:
    """Finds values of loops whose lengths are not inferred.

    Args:
        subgraph: returns a subgraph by its index.
    """

    def __init__(self, subgraph: Callable[[int], TfliteSubgraph]) -> None:
        self._subgraph = subgraph
        #: Positions of the results of a body that are not inferred, by its index and by the
        #: positions of the values that are open.
        self._inner: dict[tuple[int, frozenset[int]], set[int]] = {}

    def widened(
        self,
        body: TfliteSubgraph,
        inputs: Sequence[int],
        outputs: Sequence[int],
        given: Sequence[Dimensions],
    ) -> list[Dimensions]:
        """Returns the dimensions of a loop's values, with 0 for lengths that are never inferred.

        Args:
            body: the body of the loop.
            inputs, outputs: the tensors of the values in it.
            given: the dimensions of the first values.
        """
        dimensions = list(given)
        for _ in range(_MAX_ROUNDS):
            unknown = {tensor for tensor, own in zip(inputs, dimensions, strict=True) if _is_open(own)}
            uninferred = self._uninferred(body, inputs, unknown, inlines=True)
            wider = [
                common_dimensions(old, expected_dimensions(body.tensors[tensor]))
                if tensor in uninferred
                else old
                for tensor, old in zip(outputs, dimensions, strict=True)
            ]
            if wider == dimensions:
                break
            dimensions = wider
        return dimensions

    def _uninferred(
        self, body: TfliteSubgraph, inputs: Collection[int], unknown: Collection[int], *, inlines: bool
    ) -> set[int]:
        """Returns the tensors that operators write whose lengths are not inferred.

        Args:
            body: the body of a loop.
            inputs: the tensors of its values.
            unknown: those of them whose shapes are not known.
            inlines: whether loops in the body are looked into.
        """
        computed, opened, found = {*inputs}, {*unknown}, set[int]()
        for operator in body.operators:
            code, read = operator.code, operator.inputs
            written: Sequence[int] = ()
            is_open = not opened.isdisjoint(read)
            lengths = _LENGTHS.get(code, len(read))
            if (is_open and code in _FOLLOWING) or (lengths < len(read) and read[lengths] in computed):
                written = operator.outputs
            elif code == B.WHILE and inlines:
                positions = frozenset(place for place, tensor in enumerate(read) if tensor in opened)
                inner = self._inner_results(called_subgraphs(operator)[0][1], positions)
                written = [each for place, each in enumerate(operator.outputs) if place in inner]
            written = [each for each in written if _is_open(expected_dimensions(body.tensors[each]))]
            found.update(written)
            opened.update(written)
            if (is_open and code in _SHAPES) or (code not in _QUERIES and not computed.isdisjoint(read)):
                computed.update(operator.outputs)
        return found

    def _inner_results(self, index: int, positions: frozenset[int]) -> set[int]:
        """Returns the positions of results of a loop that are not inferred.

        Args:
            index: the subgraph of its body.
            positions: of its values that are open.
        """
        key = index, positions
        if key not in self._inner:
            body, found = self._subgraph(index), {*positions}
            for _ in range(_MAX_ROUNDS):
                unknown = [tensor for place, tensor in enumerate(body.inputs) if place in found]
                uninferred = self._uninferred(body, body.inputs, unknown, inlines=False)
                more = {place for place, tensor in enumerate(body.outputs) if tensor in uninferred} - found
                if not more:
                    break
                found |= more
            self._inner[key] = found
        return self._inner[key]


def _is_open(dimensions: Dimensions) -> bool:
    return dimensions is None or 0 in dimensions
