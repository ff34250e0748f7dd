"""Legalization of TFLite's builtin operators: one rule per operator, one file per family.

`LEGALIZATIONS` is the table of all rules. A family is imported when one of its operators is looked
up, since a model uses few.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from neurald.hal.model.lazy_table import LazyTable
from neurald.runtime.tflite.file.schema import STABLEHLO_CASE
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator as B

if TYPE_CHECKING:
    from neurald.runtime.tflite.legalization.machinery.rule import Legalization

#: Family → its operators.
_FAMILIES: Mapping[str, tuple[int, ...]] = {
    "case": (STABLEHLO_CASE,),
    "control_flow": (
        B.IF,
        B.WHILE,
    ),
    "convolution.convolution": (
        B.CONV_2D,
        B.DEPTHWISE_CONV_2D,
        B.TRANSPOSE_CONV,
    ),
    "convolution.convolution_3d": (
        B.CONV_3D,
        B.CONV_3D_TRANSPOSE,
    ),
    "convolution.fully_connected": (B.FULLY_CONNECTED,),
    "convolution.matrix_product": (B.BATCH_MATMUL,),
    "convolution.pooling": (
        B.AVERAGE_POOL_2D,
        B.L2_POOL_2D,
        B.MAX_POOL_2D,
    ),
    "convolution.reduce_window": (
        B.REDUCE_WINDOW,
        B.STABLEHLO_REDUCE_WINDOW,
    ),
    "custom": (B.CUSTOM,),
    "detection.suppression": (
        B.NON_MAX_SUPPRESSION_V4,
        B.NON_MAX_SUPPRESSION_V5,
    ),
    "elementwise.activation": (
        B.ELU,
        B.GELU,
        B.HARD_SWISH,
        B.LEAKY_RELU,
        B.LOGISTIC,
        B.PRELU,
        B.RELU,
        B.RELU6,
        B.RELU_0_TO_1,
        B.RELU_N1_TO_1,
        B.TANH,
    ),
    "elementwise.arithmetic": (
        B.ADD,
        B.ADD_N,
        B.ATAN2,
        B.DIV,
        B.FLOOR_DIV,
        B.FLOOR_MOD,
        B.MUL,
        B.POW,
        B.SQUARED_DIFFERENCE,
        B.SUB,
    ),
    "elementwise.bitwise": (
        B.BITWISE_XOR,
        B.RIGHT_SHIFT,
        B.STABLEHLO_AND,
        B.STABLEHLO_SHIFT_LEFT,
    ),
    "elementwise.casting": (
        B.BITCAST,
        B.CAST,
        B.COMPLEX_ABS,
        B.IMAG,
        B.REAL,
    ),
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
    "elementwise.quantization": (
        B.DEQUANTIZE,
        B.FAKE_QUANT,
        B.QUANTIZE,
    ),
    "elementwise.stablehlo_elementwise": (
        B.STABLEHLO_ADD,
        B.STABLEHLO_MAXIMUM,
        B.STABLEHLO_MINIMUM,
        B.STABLEHLO_MULTIPLY,
    ),
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
    "hash_table": (
        B.HASHTABLE,
        B.HASHTABLE_FIND,
        B.HASHTABLE_IMPORT,
        B.HASHTABLE_LOOKUP,
        B.HASHTABLE_SIZE,
    ),
    "movement.densify": (B.DENSIFY,),
    "movement.embedding": (
        B.EMBEDDING_LOOKUP,
        B.EMBEDDING_LOOKUP_SPARSE,
    ),
    "movement.fill": (
        B.FILL,
        B.RANGE,
        B.ZEROS_LIKE,
    ),
    "movement.gather": (
        B.GATHER,
        B.GATHER_ND,
        B.LSH_PROJECTION,
    ),
    "movement.matrix_diagonals": (
        B.MATRIX_DIAG,
        B.MATRIX_SET_DIAG,
    ),
    "movement.padding": (
        B.DILATE,
        B.MIRROR_PAD,
        B.PAD,
        B.PADV2,
        B.STABLEHLO_PAD,
    ),
    "movement.resizing": (
        B.RESIZE_BILINEAR,
        B.RESIZE_NEAREST_NEIGHBOR,
    ),
    "movement.reverse": (
        B.REVERSE_SEQUENCE,
        B.REVERSE_V2,
    ),
    "movement.scatter": (
        B.ONE_HOT,
        B.SCATTER_ND,
        B.SPARSE_TO_DENSE,
    ),
    "movement.shape": (
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
        B.SLICE,
        B.SPLIT,
        B.SPLIT_V,
        B.STRIDED_SLICE,
    ),
    "movement.space_depth": (
        B.BATCH_TO_SPACE_ND,
        B.DEPTH_TO_SPACE,
        B.SPACE_TO_BATCH_ND,
        B.SPACE_TO_DEPTH,
    ),
    "movement.stablehlo_gather_scatter": (
        B.STABLEHLO_GATHER,
        B.STABLEHLO_SCATTER,
    ),
    "movement.tiling": (
        B.BROADCAST_ARGS,
        B.BROADCAST_TO,
        B.TILE,
    ),
    "random": (
        B.MULTINOMIAL,
        B.RANDOM_STANDARD_NORMAL,
        B.RANDOM_UNIFORM,
        B.STABLEHLO_RNG_BIT_GENERATOR,
    ),
    "recurrent.lstm": (B.LSTM,),
    "recurrent.rnn": (
        B.BIDIRECTIONAL_SEQUENCE_RNN,
        B.RNN,
        B.UNIDIRECTIONAL_SEQUENCE_RNN,
    ),
    "recurrent.sequence_lstm": (
        B.BIDIRECTIONAL_SEQUENCE_LSTM,
        B.UNIDIRECTIONAL_SEQUENCE_LSTM,
    ),
    "recurrent.svdf": (B.SVDF,),
    "reduction.arg_reduce": (
        B.ARG_MAX,
        B.ARG_MIN,
        B.TOPK_V2,
        B.UNIQUE,
        B.WHERE,
    ),
    "reduction.normalization": (
        B.L2_NORMALIZATION,
        B.LOCAL_RESPONSE_NORMALIZATION,
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
    "reduction.segments": (
        B.BUCKETIZE,
        B.SEGMENT_SUM,
        B.UNSORTED_SEGMENT_MAX,
        B.UNSORTED_SEGMENT_MIN,
        B.UNSORTED_SEGMENT_PROD,
        B.UNSORTED_SEGMENT_SUM,
    ),
    "reduction.softmax": (
        B.LOG_SOFTMAX,
        B.SOFTMAX,
    ),
    "reduction.spectral": (B.RFFT2D,),
    "state": (
        B.ASSIGN_VARIABLE,
        B.CALL_ONCE,
        B.READ_VARIABLE,
        B.VAR_HANDLE,
    ),
    "text": (B.SKIP_GRAM,),
}


def _legalizations(family: ModuleType) -> "Mapping[int, Legalization]":
    legalizations: Mapping[int, Legalization] = family.LEGALIZATIONS
    return legalizations


#: Builtin code → legalization.
LEGALIZATIONS: "Mapping[int, Legalization]" = LazyTable(__name__, _FAMILIES, _legalizations)
