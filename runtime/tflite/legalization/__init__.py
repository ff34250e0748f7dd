"""Legalization of TFLite's builtin operators: one rule per operator, one file per family.

`LOWERINGS` is the table of all rules. A family is imported when one of its operators is looked up,
since a model uses few.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from neurald.hal.model.lazy_table import LazyTable
from neurald.runtime.tflite.numbers import BuiltinOperator as B
from neurald.runtime.tflite.schema import STABLEHLO_CASE

if TYPE_CHECKING:
    from neurald.runtime.tflite.legalization.machinery.rule import Lowering

#: Family → its operators.
_FAMILIES: Mapping[str, tuple[int, ...]] = {
    "elementwise.activation": (
        B.ELU,
        B.GELU,
        B.HARD_SWISH,
        B.L2_NORMALIZATION,
        B.LEAKY_RELU,
        B.LOCAL_RESPONSE_NORMALIZATION,
        B.LOGISTIC,
        B.LOG_SOFTMAX,
        B.PRELU,
        B.RELU,
        B.RELU6,
        B.RELU_0_TO_1,
        B.RELU_N1_TO_1,
        B.SOFTMAX,
        B.TANH,
    ),
    "elementwise.arithmetic": (
        B.ADD,
        B.SUB,
        B.MUL,
        B.DIV,
        B.ADD_N,
        B.ATAN2,
        B.FLOOR_DIV,
        B.FLOOR_MOD,
        B.POW,
        B.SQUARED_DIFFERENCE,
    ),
    "case": (STABLEHLO_CASE,),
    "elementwise.comparison": (
        B.EQUAL,
        B.GREATER,
        B.GREATER_EQUAL,
        B.LESS,
        B.LESS_EQUAL,
        B.LOGICAL_AND,
        B.LOGICAL_NOT,
        B.LOGICAL_OR,
        B.MAXIMUM,
        B.MINIMUM,
        B.NOT_EQUAL,
        B.SELECT,
        B.SELECT_V2,
    ),
    "control_flow": (B.IF, B.WHILE),
    "convolution.convolution": (B.TRANSPOSE_CONV, B.CONV_2D, B.DEPTHWISE_CONV_2D, B.FULLY_CONNECTED),
    "convolution.convolution_3d": (B.CONV_3D, B.CONV_3D_TRANSPOSE),
    "custom": (B.CUSTOM,),
    "movement.densify": (B.DENSIFY,),
    "detection.detection": (B.NON_MAX_SUPPRESSION_V4, B.NON_MAX_SUPPRESSION_V5),
    "movement.embedding": (
        B.EMBEDDING_LOOKUP,
        B.EMBEDDING_LOOKUP_SPARSE,
        B.HASHTABLE_LOOKUP,
        B.LSH_PROJECTION,
    ),
    "movement.gathering": (
        B.BROADCAST_ARGS,
        B.BROADCAST_TO,
        B.GATHER,
        B.GATHER_ND,
        B.MATRIX_DIAG,
        B.MATRIX_SET_DIAG,
        B.ONE_HOT,
        B.SCATTER_ND,
        B.SPARSE_TO_DENSE,
        B.TILE,
    ),
    "movement.generating": (B.FILL, B.RANGE, B.ZEROS_LIKE),
    "hash_table": (B.HASHTABLE, B.HASHTABLE_FIND, B.HASHTABLE_IMPORT, B.HASHTABLE_SIZE),
    "convolution.matrix_product": (B.BATCH_MATMUL,),
    "movement.padding": (B.DILATE, B.MIRROR_PAD, B.PAD, B.PADV2),
    "convolution.pooling": (B.AVERAGE_POOL_2D, B.L2_POOL_2D, B.MAX_POOL_2D),
    "elementwise.quantization": (
        B.BITCAST,
        B.CAST,
        B.COMPLEX_ABS,
        B.DEQUANTIZE,
        B.FAKE_QUANT,
        B.IMAG,
        B.QUANTIZE,
        B.REAL,
    ),
    "random": (B.MULTINOMIAL, B.RANDOM_STANDARD_NORMAL, B.RANDOM_UNIFORM),
    "recurrent.recurrent": (
        B.BIDIRECTIONAL_SEQUENCE_LSTM,
        B.BIDIRECTIONAL_SEQUENCE_RNN,
        B.LSTM,
        B.RNN,
        B.SVDF,
        B.UNIDIRECTIONAL_SEQUENCE_LSTM,
        B.UNIDIRECTIONAL_SEQUENCE_RNN,
    ),
    "reduction.reduction": (
        B.CUMSUM,
        B.MEAN,
        B.REDUCE_ALL,
        B.REDUCE_ANY,
        B.REDUCE_MAX,
        B.REDUCE_MIN,
        B.REDUCE_PROD,
        B.SUM,
    ),
    "movement.resizing": (B.RESIZE_BILINEAR, B.RESIZE_NEAREST_NEIGHBOR),
    "reduction.arg_reduce": (B.ARG_MAX, B.ARG_MIN, B.TOPK_V2, B.UNIQUE, B.WHERE),
    "reduction.segments": (
        B.BITWISE_XOR,
        B.BUCKETIZE,
        B.RIGHT_SHIFT,
        B.SEGMENT_SUM,
        B.UNSORTED_SEGMENT_MAX,
        B.UNSORTED_SEGMENT_MIN,
        B.UNSORTED_SEGMENT_PROD,
        B.UNSORTED_SEGMENT_SUM,
    ),
    "movement.shaping": (
        B.CONCATENATION,
        B.EXPAND_DIMS,
        B.PACK,
        B.RANK,
        B.RESHAPE,
        B.SHAPE,
        B.SQUEEZE,
        B.TRANSPOSE,
        B.UNPACK,
    ),
    "movement.slicing": (
        B.DYNAMIC_UPDATE_SLICE,
        B.REVERSE_SEQUENCE,
        B.REVERSE_V2,
        B.SLICE,
        B.SPLIT,
        B.SPLIT_V,
        B.STRIDED_SLICE,
    ),
    "movement.space_depth": (B.BATCH_TO_SPACE_ND, B.DEPTH_TO_SPACE, B.SPACE_TO_BATCH_ND, B.SPACE_TO_DEPTH),
    "reduction.spectral": (B.RFFT2D,),
    "stablehlo": (
        B.REDUCE_WINDOW,
        B.STABLEHLO_ADD,
        B.STABLEHLO_AND,
        B.STABLEHLO_SHIFT_LEFT,
        B.STABLEHLO_GATHER,
        B.STABLEHLO_MAXIMUM,
        B.STABLEHLO_MINIMUM,
        B.STABLEHLO_MULTIPLY,
        B.STABLEHLO_PAD,
        B.STABLEHLO_REDUCE_WINDOW,
        B.STABLEHLO_RNG_BIT_GENERATOR,
        B.STABLEHLO_SCATTER,
    ),
    "state": (B.ASSIGN_VARIABLE, B.CALL_ONCE, B.READ_VARIABLE, B.VAR_HANDLE),
    "text": (B.SKIP_GRAM,),
    "elementwise.unary": (
        B.ABS,
        B.CEIL,
        B.COS,
        B.EXP,
        B.FLOOR,
        B.LOG,
        B.NEG,
        B.ROUND,
        B.RSQRT,
        B.SIGN,
        B.SIN,
        B.SQRT,
        B.SQUARE,
    ),
}


def _lowerings(family: ModuleType) -> "Mapping[int, Lowering]":
    lowerings: Mapping[int, Lowering] = family.LOWERINGS
    return lowerings


#: Builtin code → lowering.
LOWERINGS: "Mapping[int, Lowering]" = LazyTable(__name__, _FAMILIES, _lowerings)
