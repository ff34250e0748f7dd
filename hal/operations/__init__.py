"""Defines all operations: signature, checks, shape rule and NumPy reference of each.

A family of operations is one file. `DEFINITIONS` is the table of all operations. A family is
imported when one of its operations is looked up, since a model uses few.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from neurald.hal.model.lazy_table import LazyTable
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.operation_type import OperationType as T

if TYPE_CHECKING:
    from neurald.hal.operations.machinery.definition import Definition

#: Family → the operations that it defines. Its file has its name.
FAMILIES: Mapping[str, tuple[OperationType, ...]] = {
    "elementwise.activation": (T.RELU, T.RELU1, T.RELU6, T.LOGISTIC, T.TANH),
    "detection.boxes": (T.AXIS_ALIGNED_BBOX_TRANSFORM, T.BOX_WITH_NMS_LIMIT),
    "elementwise.casting": (T.CAST,),
    "elementwise.comparison": (
        T.EQUAL,
        T.NOT_EQUAL,
        T.GREATER,
        T.GREATER_EQUAL,
        T.LESS,
        T.LESS_EQUAL,
        T.LOGICAL_AND,
        T.LOGICAL_OR,
        T.LOGICAL_NOT,
    ),
    "movement.concatenation": (T.CONCATENATION,),
    "control_flow": (T.IF, T.WHILE),
    "convolution.convolution": (T.CONV_2D,),
    "movement.densify": (T.DENSIFY,),
    "convolution.depthwise_convolution": (T.DEPTHWISE_CONV_2D,),
    "detection.detection": (T.DETECTION_POSTPROCESSING,),
    "elementwise.arithmetic": (T.ADD, T.SUB, T.MUL, T.DIV),
    "convolution.fully_connected": (T.FULLY_CONNECTED,),
    "movement.gather": (T.GATHER, T.EMBEDDING_LOOKUP, T.HASHTABLE_LOOKUP, T.LSH_PROJECTION),
    "convolution.grouped_convolution": (T.GROUPED_CONV_2D,),
    "elementwise.hard_swish": (T.HARD_SWISH,),
    "recurrent.lstm": (T.LSTM,),
    "convolution.matrix_product": (T.BATCH_MATMUL,),
    "reduction.normalization": (
        T.L2_NORMALIZATION,
        T.LOCAL_RESPONSE_NORMALIZATION,
        T.INSTANCE_NORMALIZATION,
        T.LOG_SOFTMAX,
    ),
    "movement.padding": (T.PAD, T.PAD_V2, T.MIRROR_PAD),
    "convolution.pooling": (T.AVERAGE_POOL_2D, T.MAX_POOL_2D, T.L2_POOL_2D),
    "detection.proposals": (T.GENERATE_PROPOSALS, T.HEATMAP_MAX_KEYPOINT),
    "elementwise.quantization": (T.QUANTIZE, T.DEQUANTIZE),
    "recurrent.quantized_lstm": (T.QUANTIZED_16BIT_LSTM, T.QUANTIZED_LSTM),
    "random": (T.RANDOM_MULTINOMIAL,),
    "reduction.reduction": (
        T.MEAN,
        T.REDUCE_ALL,
        T.REDUCE_ANY,
        T.REDUCE_MAX,
        T.REDUCE_MIN,
        T.REDUCE_PROD,
        T.REDUCE_SUM,
    ),
    "detection.roi": (T.ROI_ALIGN, T.ROI_POOLING),
    "movement.reshape": (T.RESHAPE, T.SQUEEZE),
    "movement.resizing": (T.RESIZE_BILINEAR, T.RESIZE_NEAREST_NEIGHBOR),
    "recurrent.rnn": (T.RNN, T.UNIDIRECTIONAL_SEQUENCE_RNN, T.BIDIRECTIONAL_SEQUENCE_RNN),
    "reduction.arg_reduce": (T.ARGMAX, T.ARGMIN, T.TOPK_V2),
    "elementwise.selection": (T.MAXIMUM, T.MINIMUM, T.POW, T.PRELU, T.SELECT),
    "recurrent.sequence_lstm": (T.UNIDIRECTIONAL_SEQUENCE_LSTM, T.BIDIRECTIONAL_SEQUENCE_LSTM),
    "movement.slicing": (T.SLICE, T.STRIDED_SLICE, T.SPLIT),
    "reduction.softmax": (T.SOFTMAX,),
    "movement.space_depth": (T.DEPTH_TO_SPACE, T.SPACE_TO_DEPTH, T.BATCH_TO_SPACE_ND, T.SPACE_TO_BATCH_ND),
    "recurrent.svdf": (T.SVDF,),
    "movement.tiling": (T.TILE, T.FILL, T.PACK, T.EXPAND_DIMS, T.RANK),
    "convolution.transpose_convolution": (T.TRANSPOSE_CONV_2D,),
    "movement.transpose": (T.TRANSPOSE, T.CHANNEL_SHUFFLE, T.REVERSE),
    "elementwise.unary": (T.ABS, T.ELU, T.EXP, T.FLOOR, T.LOG, T.NEG, T.RSQRT, T.SIN, T.SQRT),
    "tflite.elementwise.activation": (
        T.TFLITE_RELU,
        T.TFLITE_RELU6,
        T.TFLITE_RELU_N1_TO_1,
        T.TFLITE_RELU_0_TO_1,
        T.TFLITE_LOGISTIC,
        T.TFLITE_TANH,
        T.TFLITE_ELU,
        T.TFLITE_GELU,
        T.TFLITE_LEAKY_RELU,
        T.TFLITE_PRELU,
    ),
    "tflite.elementwise.arithmetic": (
        T.TFLITE_ADD,
        T.TFLITE_SUB,
        T.TFLITE_MUL,
        T.TFLITE_DIV,
        T.TFLITE_SQUARED_DIFFERENCE,
        T.TFLITE_FLOOR_DIV,
        T.TFLITE_FLOOR_MOD,
        T.TFLITE_POW,
        T.TFLITE_ATAN2,
        T.TFLITE_ADD_N,
    ),
    "tflite.elementwise.bitwise": (
        T.TFLITE_BITWISE_XOR,
        T.TFLITE_RIGHT_SHIFT,
        T.TFLITE_STABLEHLO_AND,
        T.TFLITE_STABLEHLO_SHIFT_LEFT,
    ),
    "tflite.elementwise.casting": (
        T.TFLITE_CAST,
        T.TFLITE_BITCAST,
        T.TFLITE_COMPLEX_ABS,
        T.TFLITE_REAL,
        T.TFLITE_IMAG,
    ),
    "tflite.elementwise.comparison": (
        T.TFLITE_EQUAL,
        T.TFLITE_NOT_EQUAL,
        T.TFLITE_LESS,
        T.TFLITE_LESS_EQUAL,
        T.TFLITE_GREATER,
        T.TFLITE_GREATER_EQUAL,
        T.TFLITE_MAXIMUM,
        T.TFLITE_MINIMUM,
        T.TFLITE_SELECT,
        T.TFLITE_SELECT_V2,
    ),
    "tflite.convolution.convolution": (T.TFLITE_CONV_2D, T.TFLITE_DEPTHWISE_CONV_2D, T.TFLITE_TRANSPOSE_CONV),
    "tflite.convolution.convolution_3d": (T.TFLITE_CONV_3D, T.TFLITE_CONV_3D_TRANSPOSE),
    "tflite.detection.detection": (T.TFLITE_DETECTION_POSTPROCESS,),
    "tflite.movement.embedding": (T.TFLITE_EMBEDDING_LOOKUP, T.TFLITE_EMBEDDING_LOOKUP_SPARSE),
    "tflite.convolution.fully_connected": (T.TFLITE_FULLY_CONNECTED,),
    "tflite.movement.gather": (T.TFLITE_GATHER, T.TFLITE_GATHER_ND),
    "tflite.movement.fill": (T.TFLITE_RANGE, T.TFLITE_FILL, T.TFLITE_ZEROS_LIKE),
    "tflite.hash_table": (
        T.TFLITE_HASHTABLE_LOOKUP,
        T.TFLITE_HASHTABLE_IMPORT,
        T.TFLITE_HASHTABLE_FIND,
        T.TFLITE_HASHTABLE_SIZE,
    ),
    "tflite.movement.matrix_diagonals": (T.TFLITE_MATRIX_DIAG, T.TFLITE_MATRIX_SET_DIAG),
    "tflite.convolution.matrix_product": (T.TFLITE_BATCH_MATMUL,),
    "tflite.reduction.normalization": (T.TFLITE_L2_NORMALIZATION,),
    "tflite.movement.padding": (
        T.TFLITE_PAD,
        T.TFLITE_MIRROR_PAD,
        T.TFLITE_PADV2,
        T.TFLITE_DILATE,
        T.TFLITE_STABLEHLO_PAD,
    ),
    "tflite.convolution.pooling": (T.TFLITE_AVERAGE_POOL_2D, T.TFLITE_MAX_POOL_2D),
    "tflite.elementwise.quantization": (T.TFLITE_QUANTIZE, T.TFLITE_DEQUANTIZE, T.TFLITE_FAKE_QUANT),
    "tflite.random": (
        T.TFLITE_RANDOM_UNIFORM,
        T.TFLITE_RANDOM_STANDARD_NORMAL,
        T.TFLITE_MULTINOMIAL,
        T.TFLITE_STABLEHLO_RNG_BIT_GENERATOR,
    ),
    "tflite.movement.stablehlo_gather_scatter": (T.TFLITE_STABLEHLO_GATHER, T.TFLITE_STABLEHLO_SCATTER),
    "tflite.reduction.reduction": (
        T.TFLITE_MEAN,
        T.TFLITE_SUM,
        T.TFLITE_REDUCE_PROD,
        T.TFLITE_REDUCE_MAX,
        T.TFLITE_REDUCE_MIN,
        T.TFLITE_REDUCE_ANY,
        T.TFLITE_REDUCE_ALL,
        T.TFLITE_CUMSUM,
    ),
    "tflite.movement.resizing": (T.TFLITE_RESIZE_BILINEAR, T.TFLITE_RESIZE_NEAREST_NEIGHBOR),
    "tflite.movement.reverse": (T.TFLITE_REVERSE_V2, T.TFLITE_REVERSE_SEQUENCE),
    "tflite.movement.scatter": (T.TFLITE_SCATTER_ND, T.TFLITE_SPARSE_TO_DENSE, T.TFLITE_ONE_HOT),
    "tflite.reduction.arg_reduce": (
        T.TFLITE_ARG_MAX,
        T.TFLITE_ARG_MIN,
        T.TFLITE_TOPK_V2,
        T.TFLITE_WHERE,
        T.TFLITE_UNIQUE,
    ),
    "tflite.reduction.segments": (
        T.TFLITE_SEGMENT_SUM,
        T.TFLITE_UNSORTED_SEGMENT_MAX,
        T.TFLITE_UNSORTED_SEGMENT_MIN,
        T.TFLITE_UNSORTED_SEGMENT_PROD,
        T.TFLITE_UNSORTED_SEGMENT_SUM,
        T.TFLITE_BUCKETIZE,
    ),
    "tflite.movement.shape": (T.TFLITE_RESHAPE, T.TFLITE_SQUEEZE, T.TFLITE_SHAPE, T.TFLITE_RANK),
    "tflite.movement.stacking": (T.TFLITE_EXPAND_DIMS, T.TFLITE_PACK, T.TFLITE_UNPACK),
    "tflite.movement.concatenation": (T.TFLITE_CONCATENATION,),
    "tflite.movement.transpose": (T.TFLITE_TRANSPOSE,),
    "tflite.movement.slicing": (
        T.TFLITE_SLICE,
        T.TFLITE_SPLIT,
        T.TFLITE_SPLIT_V,
        T.TFLITE_STRIDED_SLICE,
        T.TFLITE_DYNAMIC_UPDATE_SLICE,
    ),
    "tflite.reduction.softmax": (T.TFLITE_SOFTMAX, T.TFLITE_LOG_SOFTMAX),
    "tflite.movement.space_depth": (
        T.TFLITE_DEPTH_TO_SPACE,
        T.TFLITE_SPACE_TO_DEPTH,
        T.TFLITE_BATCH_TO_SPACE_ND,
        T.TFLITE_SPACE_TO_BATCH_ND,
    ),
    "tflite.recurrent.recurrent": (
        T.TFLITE_LSTM,
        T.TFLITE_RNN,
        T.TFLITE_UNIDIRECTIONAL_SEQUENCE_RNN,
        T.TFLITE_BIDIRECTIONAL_SEQUENCE_RNN,
        T.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM,
        T.TFLITE_BIDIRECTIONAL_SEQUENCE_LSTM,
    ),
    "tflite.recurrent.svdf": (T.TFLITE_SVDF,),
    "tflite.reduction.spectral": (T.TFLITE_RFFT2D,),
    "tflite.elementwise.stablehlo_elementwise": (
        T.TFLITE_STABLEHLO_ADD,
        T.TFLITE_STABLEHLO_MULTIPLY,
        T.TFLITE_STABLEHLO_MAXIMUM,
        T.TFLITE_STABLEHLO_MINIMUM,
    ),
    "tflite.detection.suppression": (T.TFLITE_NON_MAX_SUPPRESSION_V4, T.TFLITE_NON_MAX_SUPPRESSION_V5),
    "tflite.text": (T.TFLITE_SKIP_GRAM,),
    "tflite.movement.tiling": (T.TFLITE_TILE, T.TFLITE_BROADCAST_TO, T.TFLITE_BROADCAST_ARGS),
    "tflite.elementwise.unary": (
        T.TFLITE_ABS,
        T.TFLITE_CEIL,
        T.TFLITE_COS,
        T.TFLITE_EXP,
        T.TFLITE_FLOOR,
        T.TFLITE_LOG,
        T.TFLITE_NEG,
        T.TFLITE_ROUND,
        T.TFLITE_RSQRT,
        T.TFLITE_SIGN,
        T.TFLITE_SQRT,
        T.TFLITE_SQUARE,
    ),
    "tflite.convolution.reduce_window": (T.TFLITE_REDUCE_WINDOW,),
}

#: Family → the Android operations that its operations extend.
_WIDENED: Mapping[str, tuple[OperationType, ...]] = {
    "tflite.elementwise.activation": (T.RELU, T.RELU6, T.RELU1, T.LOGISTIC, T.TANH, T.ELU, T.PRELU),
    "tflite.elementwise.arithmetic": (T.ADD, T.SUB, T.MUL, T.DIV, T.POW),
    "tflite.elementwise.casting": (T.CAST,),
    "tflite.elementwise.comparison": (
        T.EQUAL,
        T.NOT_EQUAL,
        T.LESS,
        T.LESS_EQUAL,
        T.GREATER,
        T.GREATER_EQUAL,
        T.MAXIMUM,
        T.MINIMUM,
        T.SELECT,
    ),
    "tflite.convolution.convolution": (T.CONV_2D, T.DEPTHWISE_CONV_2D, T.TRANSPOSE_CONV_2D),
    "tflite.movement.embedding": (T.EMBEDDING_LOOKUP,),
    "tflite.convolution.fully_connected": (T.FULLY_CONNECTED,),
    "tflite.movement.gather": (T.GATHER,),
    "tflite.hash_table": (T.HASHTABLE_LOOKUP,),
    "tflite.convolution.matrix_product": (T.BATCH_MATMUL,),
    "tflite.reduction.normalization": (T.L2_NORMALIZATION,),
    "tflite.movement.padding": (T.PAD, T.MIRROR_PAD),
    "tflite.convolution.pooling": (T.AVERAGE_POOL_2D, T.MAX_POOL_2D),
    "tflite.elementwise.quantization": (T.QUANTIZE, T.DEQUANTIZE),
    "tflite.reduction.reduction": (
        T.MEAN,
        T.REDUCE_SUM,
        T.REDUCE_PROD,
        T.REDUCE_MAX,
        T.REDUCE_MIN,
        T.REDUCE_ANY,
        T.REDUCE_ALL,
    ),
    "tflite.movement.resizing": (T.RESIZE_BILINEAR, T.RESIZE_NEAREST_NEIGHBOR),
    "tflite.movement.reverse": (T.REVERSE,),
    "tflite.reduction.arg_reduce": (T.ARGMAX, T.ARGMIN),
    "tflite.movement.shape": (T.RESHAPE, T.SQUEEZE),
    "tflite.movement.stacking": (T.EXPAND_DIMS, T.PACK),
    "tflite.movement.concatenation": (T.CONCATENATION,),
    "tflite.movement.transpose": (T.TRANSPOSE,),
    "tflite.movement.slicing": (T.SLICE, T.SPLIT),
    "tflite.reduction.softmax": (T.SOFTMAX, T.LOG_SOFTMAX),
    "tflite.movement.space_depth": (
        T.DEPTH_TO_SPACE,
        T.SPACE_TO_DEPTH,
        T.BATCH_TO_SPACE_ND,
        T.SPACE_TO_BATCH_ND,
    ),
    "tflite.movement.tiling": (T.TILE,),
    "tflite.elementwise.unary": (T.ABS, T.EXP, T.FLOOR, T.LOG, T.NEG, T.RSQRT, T.SQRT),
}


def _defined(family: ModuleType) -> "Mapping[OperationType, Definition]":
    return {definition.type: definition for definition in family.DEFINITIONS}


def _widening(family: ModuleType) -> "Mapping[OperationType, Definition]":
    return {
        definition.widens: definition for definition in family.DEFINITIONS if definition.widens is not None
    }


DEFINITIONS: "Mapping[OperationType, Definition]" = LazyTable(__name__, FAMILIES, _defined)

#: Android operation → the extension operation that accepts more types, ranks or scales.
WIDER: "Mapping[OperationType, Definition]" = LazyTable(__name__, _WIDENED, _widening)
