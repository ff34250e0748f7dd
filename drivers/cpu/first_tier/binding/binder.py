"""Binds the operations of a graph to the kernels of the first tier."""

import logging
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType
from typing import Final

from neurald.drivers.cpu.first_tier.binding.folding import Folding
from neurald.drivers.cpu.first_tier.binding.scope import Bind, BindingScope
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.layout import Tiles
from neurald.hal.errors import Error
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.lazy_table import LazyTable
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.operation_type import OperationType as T
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.validation.shape_inference import LazyBindings

_LOG: Final = logging.getLogger(__name__)

#: Module → the operations that it binds. A model uses few, so that few are imported.
FAMILIES: Final[Mapping[str, tuple[OperationType, ...]]] = {
    "convolution.convolutions": (
        T.CONV_2D,
        T.TFLITE_CONV_2D,
        T.GROUPED_CONV_2D,
        T.TRANSPOSE_CONV_2D,
        T.TFLITE_TRANSPOSE_CONV,
        T.DEPTHWISE_CONV_2D,
        T.TFLITE_DEPTHWISE_CONV_2D,
    ),
    "convolution.volumes": (T.TFLITE_CONV_3D, T.TFLITE_CONV_3D_TRANSPOSE),
    "convolution.matrices": (
        T.FULLY_CONNECTED,
        T.TFLITE_FULLY_CONNECTED,
        T.BATCH_MATMUL,
        T.TFLITE_BATCH_MATMUL,
    ),
    "convolution.pooling": (
        T.MAX_POOL_2D,
        T.TFLITE_MAX_POOL_2D,
        T.AVERAGE_POOL_2D,
        T.TFLITE_AVERAGE_POOL_2D,
        T.L2_POOL_2D,
    ),
    "recurrent.lstm": (
        T.LSTM,
        T.TFLITE_LSTM,
        T.UNIDIRECTIONAL_SEQUENCE_LSTM,
        T.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM,
        T.BIDIRECTIONAL_SEQUENCE_LSTM,
        T.TFLITE_BIDIRECTIONAL_SEQUENCE_LSTM,
    ),
    "recurrent.rnn": (
        T.RNN,
        T.TFLITE_RNN,
        T.UNIDIRECTIONAL_SEQUENCE_RNN,
        T.TFLITE_UNIDIRECTIONAL_SEQUENCE_RNN,
        T.BIDIRECTIONAL_SEQUENCE_RNN,
        T.TFLITE_BIDIRECTIONAL_SEQUENCE_RNN,
    ),
    "recurrent.svdf": (T.SVDF, T.TFLITE_SVDF),
    "movement.resizing": (T.RESIZE_BILINEAR, T.TFLITE_RESIZE_BILINEAR),
    "reduction.rows": (
        T.MEAN,
        T.TFLITE_MEAN,
        T.REDUCE_SUM,
        T.TFLITE_SUM,
        T.REDUCE_PROD,
        T.TFLITE_REDUCE_PROD,
        T.REDUCE_MAX,
        T.TFLITE_REDUCE_MAX,
        T.REDUCE_MIN,
        T.TFLITE_REDUCE_MIN,
        T.REDUCE_ANY,
        T.TFLITE_REDUCE_ANY,
        T.REDUCE_ALL,
        T.TFLITE_REDUCE_ALL,
        T.SOFTMAX,
        T.TFLITE_SOFTMAX,
        T.LOG_SOFTMAX,
        T.TFLITE_LOG_SOFTMAX,
        T.L2_NORMALIZATION,
        T.TFLITE_L2_NORMALIZATION,
    ),
    "reduction.extremes": (T.ARGMAX, T.ARGMIN, T.TFLITE_ARG_MAX, T.TFLITE_ARG_MIN),
    "reduction.largest": (T.TOPK_V2, T.TFLITE_TOPK_V2),
    "movement.gather": (
        T.GATHER,
        T.TFLITE_GATHER,
        T.EMBEDDING_LOOKUP,
        T.TFLITE_EMBEDDING_LOOKUP,
        T.TFLITE_GATHER_ND,
    ),
    "movement.scattering": (
        T.TFLITE_SCATTER_ND,
        T.TFLITE_UNSORTED_SEGMENT_SUM,
        T.TFLITE_UNSORTED_SEGMENT_PROD,
        T.TFLITE_UNSORTED_SEGMENT_MAX,
        T.TFLITE_UNSORTED_SEGMENT_MIN,
        T.TFLITE_ONE_HOT,
    ),
    "reduction.buckets": (T.TFLITE_BUCKETIZE,),
    "reduction.scans": (T.TFLITE_CUMSUM,),
    "reduction.local_response": (T.LOCAL_RESPONSE_NORMALIZATION,),
    "reduction.spectral": (T.TFLITE_RFFT2D, T.TFLITE_COMPLEX_ABS),
    "elementwise.unary": (
        T.RELU,
        T.RELU1,
        T.RELU6,
        T.TFLITE_RELU,
        T.TFLITE_RELU6,
        T.TFLITE_RELU_N1_TO_1,
        T.TFLITE_RELU_0_TO_1,
        T.ABS,
        T.TFLITE_ABS,
        T.EXP,
        T.TFLITE_EXP,
        T.FLOOR,
        T.TFLITE_FLOOR,
        T.TFLITE_CEIL,
        T.TFLITE_ROUND,
        T.LOG,
        T.TFLITE_LOG,
        T.NEG,
        T.TFLITE_NEG,
        T.RSQRT,
        T.TFLITE_RSQRT,
        T.SQRT,
        T.TFLITE_SQRT,
        T.TFLITE_SIGN,
        T.SIN,
        T.TFLITE_COS,
        T.TFLITE_SQUARE,
        T.LOGISTIC,
        T.TFLITE_LOGISTIC,
        T.TANH,
        T.TFLITE_TANH,
        T.HARD_SWISH,
        T.TFLITE_GELU,
        T.ELU,
        T.TFLITE_ELU,
        T.TFLITE_LEAKY_RELU,
    ),
    "elementwise.binary": (
        T.ADD,
        T.SUB,
        T.MUL,
        T.DIV,
        T.TFLITE_ADD,
        T.TFLITE_SUB,
        T.TFLITE_MUL,
        T.TFLITE_DIV,
        T.TFLITE_SQUARED_DIFFERENCE,
        T.PRELU,
        T.TFLITE_PRELU,
        T.MAXIMUM,
        T.MINIMUM,
        T.TFLITE_MAXIMUM,
        T.TFLITE_MINIMUM,
        T.POW,
        T.TFLITE_POW,
        T.TFLITE_ATAN2,
        T.TFLITE_FLOOR_DIV,
        T.TFLITE_FLOOR_MOD,
        T.TFLITE_ADD_N,
    ),
    "elementwise.comparison": (
        T.EQUAL,
        T.NOT_EQUAL,
        T.GREATER,
        T.GREATER_EQUAL,
        T.LESS,
        T.LESS_EQUAL,
        T.TFLITE_EQUAL,
        T.TFLITE_NOT_EQUAL,
        T.TFLITE_GREATER,
        T.TFLITE_GREATER_EQUAL,
        T.TFLITE_LESS,
        T.TFLITE_LESS_EQUAL,
    ),
    "elementwise.logic": (
        T.TFLITE_BITWISE_XOR,
        T.TFLITE_RIGHT_SHIFT,
        T.LOGICAL_AND,
        T.LOGICAL_OR,
        T.LOGICAL_NOT,
        T.SELECT,
        T.TFLITE_SELECT,
        T.TFLITE_SELECT_V2,
    ),
    "elementwise.casts": (
        T.CAST,
        T.TFLITE_CAST,
    ),
    "elementwise.quantization": (
        T.TFLITE_FAKE_QUANT,
        T.QUANTIZE,
        T.TFLITE_QUANTIZE,
        T.DEQUANTIZE,
        T.TFLITE_DEQUANTIZE,
    ),
    "movement.views": (
        T.RESHAPE,
        T.SQUEEZE,
        T.EXPAND_DIMS,
        T.TFLITE_RESHAPE,
        T.TFLITE_EXPAND_DIMS,
        T.TFLITE_SQUEEZE,
        T.TRANSPOSE,
        T.TFLITE_TRANSPOSE,
        T.SLICE,
        T.TFLITE_SLICE,
        T.STRIDED_SLICE,
        T.TFLITE_STRIDED_SLICE,
        T.TFLITE_DYNAMIC_UPDATE_SLICE,
        T.SPLIT,
        T.TFLITE_SPLIT,
        T.TFLITE_SPLIT_V,
        T.TFLITE_UNPACK,
        T.REVERSE,
        T.TFLITE_REVERSE_V2,
        T.CONCATENATION,
        T.TFLITE_CONCATENATION,
        T.PACK,
        T.TFLITE_PACK,
        T.TFLITE_BITCAST,
        T.TILE,
        T.TFLITE_TILE,
        T.TFLITE_BROADCAST_TO,
        T.SPACE_TO_DEPTH,
        T.DEPTH_TO_SPACE,
        T.TFLITE_SPACE_TO_DEPTH,
        T.TFLITE_DEPTH_TO_SPACE,
        T.CHANNEL_SHUFFLE,
    ),
    "movement.numbered": (
        T.MIRROR_PAD,
        T.TFLITE_MIRROR_PAD,
        T.RESIZE_NEAREST_NEIGHBOR,
        T.TFLITE_RESIZE_NEAREST_NEIGHBOR,
        T.BATCH_TO_SPACE_ND,
        T.SPACE_TO_BATCH_ND,
        T.TFLITE_BATCH_TO_SPACE_ND,
        T.TFLITE_SPACE_TO_BATCH_ND,
        T.TFLITE_REVERSE_SEQUENCE,
    ),
    "movement.placement": (
        T.TFLITE_FILL,
        T.TFLITE_ZEROS_LIKE,
        T.PAD,
        T.PAD_V2,
        T.TFLITE_PAD,
        T.TFLITE_PADV2,
        T.TFLITE_MATRIX_DIAG,
        T.TFLITE_MATRIX_SET_DIAG,
        T.TFLITE_DILATE,
        T.TFLITE_SPARSE_TO_DENSE,
    ),
}


def _bindings(module: ModuleType) -> Mapping[OperationType, Bind]:
    found: Mapping[OperationType, Bind] = module.BINDINGS
    return found


_BINDINGS: Final = LazyTable("neurald.drivers.cpu.first_tier.binding", FAMILIES, _bindings)
#: Operations that models have between constants and their readers.
_FOLDED: Final = frozenset(
    (
        *(
            kind
            for family, kinds in FAMILIES.items()
            if family.startswith("elementwise.")
            or family in ("movement.views", "movement.numbered", "movement.placement")
            for kind in kinds
        ),
        OperationType.DENSIFY,
        OperationType.FILL,
        OperationType.TFLITE_RANGE,
    )
)

#: Operations whose operands may have no elements.
_EMPTIABLE: Final = frozenset(
    (T.SLICE, T.TFLITE_SLICE, T.CONCATENATION, T.TFLITE_CONCATENATION, T.RESHAPE, T.TFLITE_RESHAPE)
)
#: Operations with results that depend on the shapes of inputs only.
_OF_SHAPES: Final = frozenset((T.TFLITE_ZEROS_LIKE,))
#: Operations with more operands hardly repeat.
_MAX_OPERANDS: Final = 12


class Binder:
    """Binds the operations of a graph.

    Args:
        model: the model.
        graph: one of its graphs.
        tiles: the tiles of the target.
        is_known: True if the lengths of all dimensions are known, so that those of 0 are empty.

    Attributes:
        graph: the graph with the dimensions that are known before it runs.
        folded: the positions of operations that are computed, mostly from constants.
        results: values that these compute, by operand.
        known: those of them that are not outputs of the graph, which kernels write.
    """

    def __init__(self, model: Model, graph: Subgraph, tiles: Tiles, *, is_known: bool = False) -> None:
        self._bindings = LazyBindings(graph)
        self._is_known = is_known
        found = Folding(model, graph, self._bindings, _FOLDED, is_known=is_known)
        self.graph, self.folded, self.results = found.graph(graph), found.folded, found.known
        written = set(graph.outputs)
        self.known = {index: value for index, value in self.results.items() if index not in written}
        self._contradicted = found.contradicted
        self._scope = BindingScope(self.graph, found.value, tiles)
        #: Tensors whose shapes are not known, and those without elements, which few graphs have.
        self._unknown, self._empty = _unknown(self.graph.operands), _empty(self.graph.operands)
        #: What operations of a form are bound to, with the operands of one of them.
        self._forms: dict[tuple[object, ...], tuple[tuple[int, ...], list[BoundCall] | None]] = {}

    def bound(self, positions: Collection[int] | None = None) -> list[list[BoundCall] | None]:
        """Returns the kernels of each operation; None for one that has none.

        Operations that were computed need none, except those that copy results to outputs.

        Args:
            positions: the positions of the operations that run; None for all.
        """
        folded, count = set(self.folded), len(self.graph.operations)
        wanted = range(count) if positions is None else set(positions)
        return [
            self._copies(self.graph.operations[position])
            if position in folded
            else self._operation(position)
            if position in wanted
            else None
            for position in range(count)
        ]

    def constant(self, index: int) -> Array | None:
        """Returns the value of an operand that is known, and that no kernel writes."""
        return None if index in self.results and index not in self.known else self._scope.value(index)

    def _copies(self, operation: Operation) -> list[BoundCall] | None:
        """Returns the calls that write a computed operation's results to outputs of the graph."""
        calls: list[BoundCall] = []
        for index in operation.outputs:
            if index in self.known:
                continue
            value, operand = self.results[index], self.graph.operands[index]
            if not operand.is_fully_specified or operand.type is OperandType.TENSOR_STRING:
                return None
            from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import copying_call  # rare

            calls.append(copying_call(index, BoundConstant.of(value), value.nbytes))
        return calls

    def _operation(self, position: int) -> list[BoundCall] | None:
        operation = self.graph.operations[position]
        if position in self._contradicted:
            # References report it.
            return None
        form = self._form(operation)
        if form is None:
            return self._bind(position, operation)
        indexes, known = operation.inputs + operation.outputs, self._forms.get(form)
        if known is not None:
            before, calls = known
            return None if calls is None else _with_operands(calls, dict(zip(before, indexes, strict=True)))
        calls = self._bind(position, operation)
        if calls is None or _can_repeat(calls, indexes):
            self._forms[form] = indexes, calls
        return calls

    def _form(self, operation: Operation) -> tuple[object, ...] | None:
        """Returns all that its binding depends on but operands' numbers; None if that is much.

        Networks repeat operations of few forms.
        """
        indexes, operands = operation.inputs + operation.outputs, self.graph.operands
        if len(indexes) > _MAX_OPERANDS or len({*indexes}) < len(indexes):
            return None
        facts: list[object] = [operation.type, len(operation.inputs)]
        for index in indexes:
            if index in self.results:
                return None
            operand = operands[index]
            if operand.channel_quant is not None:
                return None
            facts += (
                operand.type,
                operand.dimensions,
                operand.lifetime,
                operand.scale,
                operand.zero_point,
                operand.value,
                operand.location,
            )
        return tuple(facts)

    def _bind(self, position: int, operation: Operation) -> list[BoundCall] | None:
        operands = self.graph.operands
        bind: Bind | None = _BINDINGS.get(operation.type)
        if self._unknown and not self._unknown.isdisjoint((*operation.inputs, *operation.outputs)):
            if not (self._is_known and self._takes_nothing(operation)):
                return None
            if self._empty.issuperset(operation.outputs):
                return []
        if bind is None:
            return None
        call = Call(
            self._bindings[position],
            operands,
            lambda index: operands[index].dimensions,
            self._scope.value,
        )
        try:
            if not self.results.keys().isdisjoint(operation.inputs):
                DEFINITIONS[operation.type].check(call)
            calls = bind(self._scope, call)
            return calls if self._are_right(calls, operation) else None
        except (NotBound, UnknownValue, Error):
            # References report what is wrong with it, if anything.
            _LOG.debug("operation %d, %s, runs on references", position, operation.type.name, exc_info=True)
        except Exception:
            # A defect. References compute the right results, but slowly.
            _LOG.exception(
                "operation %d, %s, runs on references, since choosing its kernel failed unexpectedly",
                position,
                operation.type.name,
            )
        return None

    def _are_right(self, calls: Sequence[BoundCall], operation: Operation) -> bool:
        """Returns True if calls read all that decides the results, and only operands with elements.

        An input that nothing reads may give the results another shape than the model declares,
        which references report. Of constants without elements, kernels would read the first one.
        """
        operands = self.graph.operands
        read = {each for call in calls for each in call.arguments if isinstance(each, int)}
        if not self._empty.isdisjoint(read):
            return False
        if operation.type in _OF_SHAPES:
            return True
        for index in operation.inputs:
            if index not in read and operands[index].type.is_tensor and not self._decides_nothing(index):
                return False
        return True

    def _decides_nothing(self, index: int) -> bool:
        """Returns True if an input is known, omitted, or has no elements."""
        if self.graph.operands[index].lifetime is Lifetime.NO_VALUE or index in self._empty:
            return True
        return self._scope.value(index) is not None

    def _takes_nothing(self, operation: Operation) -> bool:
        """Returns True if an operation only moves elements, and may have none to move."""
        dimensions = [self.graph.operands[index].dimensions for index in operation.inputs]
        return operation.type in _EMPTIABLE and all(each is not None for each in dimensions)


def _unknown(operands: Sequence[Operand]) -> frozenset[int]:
    """Returns the tensors whose shapes are not known."""
    return frozenset(
        [
            index
            for index, operand in enumerate(operands)
            if not operand.is_fully_specified
            and operand.lifetime is not Lifetime.NO_VALUE
            and operand.type.is_tensor
        ]
    )


def _empty(operands: Sequence[Operand]) -> frozenset[int]:
    """Returns the tensors without elements."""
    return frozenset([index for index, operand in enumerate(operands) if 0 in (operand.dimensions or ())])


def _can_repeat(calls: Sequence[BoundCall], indexes: Collection[int]) -> bool:
    """Returns True if calls have only their operation's operands, without messages about them."""
    for call in calls:
        if call.messages:
            return False
        for each in call.arguments:
            if isinstance(each, int) and each not in indexes:
                return False
    return True


def _with_operands(calls: Sequence[BoundCall], operands: Mapping[int, int]) -> list[BoundCall]:
    """Returns calls with other operands, and temporaries of their own.

    Args:
        calls: the calls of an operation.
        operands: the operands by its own.
    """
    temporaries: dict[BoundTemporary, BoundTemporary] = {}

    def of(argument: int | BoundConstant | BoundTemporary) -> int | BoundConstant | BoundTemporary:
        if isinstance(argument, int):
            return operands[argument]
        if isinstance(argument, BoundConstant):
            return argument
        if argument not in temporaries:
            temporaries[argument] = BoundTemporary(size_bytes=argument.size_bytes)
        return temporaries[argument]

    return [
        BoundCall(
            function=call.function,
            arguments=tuple([of(each) for each in call.arguments]),
            words=call.words,
            work_items=call.work_items,
            cost_ns=call.cost_ns,
        )
        for call in calls
    ]
