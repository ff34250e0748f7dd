"""The operations: one family a file, each operation with signature, checks, shape rule and reference.

`DEFINITIONS` is the table of all of them.
"""

from neurald.hal.operation_type import OperationType
from neurald.hal.operations import (
    activation,
    boxes,
    casting,
    comparison,
    concatenation,
    control_flow,
    convolution,
    densify,
    depthwise_convolution,
    detection,
    elementwise,
    fully_connected,
    gathering,
    grouped_convolution,
    hard_swish,
    lstm,
    matrix_product,
    normalization,
    padding,
    pooling,
    proposals,
    quantization,
    quantized_lstm,
    random,
    reduction,
    regions,
    reshaping,
    resizing,
    rnn,
    searching,
    selection,
    sequence_lstm,
    slicing,
    softmax,
    space_depth,
    svdf,
    tiling,
    transpose_convolution,
    transposing,
    unary,
)
from neurald.hal.operations.definition import Definition
from neurald.hal.operations.tflite import activation as tflite_activation
from neurald.hal.operations.tflite import arithmetic as tflite_arithmetic
from neurald.hal.operations.tflite import bitwise as tflite_bitwise
from neurald.hal.operations.tflite import casting as tflite_casting
from neurald.hal.operations.tflite import comparison as tflite_comparison
from neurald.hal.operations.tflite import convolution as tflite_convolution
from neurald.hal.operations.tflite import convolution_3d as tflite_convolution_3d
from neurald.hal.operations.tflite import detection as tflite_detection
from neurald.hal.operations.tflite import embedding as tflite_embedding
from neurald.hal.operations.tflite import fully_connected as tflite_fully_connected
from neurald.hal.operations.tflite import gathering as tflite_gathering
from neurald.hal.operations.tflite import generating as tflite_generating
from neurald.hal.operations.tflite import hash_table as tflite_hash_table
from neurald.hal.operations.tflite import matrix as tflite_matrix
from neurald.hal.operations.tflite import matrix_product as tflite_matrix_product
from neurald.hal.operations.tflite import normalization as tflite_normalization
from neurald.hal.operations.tflite import padding as tflite_padding
from neurald.hal.operations.tflite import pooling as tflite_pooling
from neurald.hal.operations.tflite import quantization as tflite_quantization
from neurald.hal.operations.tflite import random as tflite_random
from neurald.hal.operations.tflite import recurrent as tflite_recurrent
from neurald.hal.operations.tflite import reduction as tflite_reduction
from neurald.hal.operations.tflite import regions as tflite_regions
from neurald.hal.operations.tflite import resizing as tflite_resizing
from neurald.hal.operations.tflite import reversing as tflite_reversing
from neurald.hal.operations.tflite import scattering as tflite_scattering
from neurald.hal.operations.tflite import searching as tflite_searching
from neurald.hal.operations.tflite import segments as tflite_segments
from neurald.hal.operations.tflite import shaping as tflite_shaping
from neurald.hal.operations.tflite import slicing as tflite_slicing
from neurald.hal.operations.tflite import softmax as tflite_softmax
from neurald.hal.operations.tflite import space_depth as tflite_space_depth
from neurald.hal.operations.tflite import spectral as tflite_spectral
from neurald.hal.operations.tflite import stored_arithmetic as tflite_stored_arithmetic
from neurald.hal.operations.tflite import suppression as tflite_suppression
from neurald.hal.operations.tflite import svdf as tflite_svdf
from neurald.hal.operations.tflite import text as tflite_text
from neurald.hal.operations.tflite import tiling as tflite_tiling
from neurald.hal.operations.tflite import unary as tflite_unary
from neurald.hal.operations.tflite import windows as tflite_windows

_FAMILIES = (
    activation,
    boxes,
    casting,
    comparison,
    concatenation,
    control_flow,
    convolution,
    densify,
    depthwise_convolution,
    detection,
    elementwise,
    fully_connected,
    gathering,
    grouped_convolution,
    hard_swish,
    lstm,
    matrix_product,
    normalization,
    padding,
    pooling,
    proposals,
    quantization,
    quantized_lstm,
    random,
    reduction,
    regions,
    reshaping,
    resizing,
    rnn,
    searching,
    selection,
    sequence_lstm,
    slicing,
    softmax,
    space_depth,
    svdf,
    tiling,
    transpose_convolution,
    transposing,
    unary,
    tflite_activation,
    tflite_arithmetic,
    tflite_bitwise,
    tflite_casting,
    tflite_comparison,
    tflite_convolution,
    tflite_convolution_3d,
    tflite_detection,
    tflite_embedding,
    tflite_fully_connected,
    tflite_gathering,
    tflite_generating,
    tflite_hash_table,
    tflite_matrix,
    tflite_matrix_product,
    tflite_normalization,
    tflite_padding,
    tflite_pooling,
    tflite_quantization,
    tflite_random,
    tflite_regions,
    tflite_reduction,
    tflite_resizing,
    tflite_reversing,
    tflite_scattering,
    tflite_searching,
    tflite_segments,
    tflite_shaping,
    tflite_slicing,
    tflite_softmax,
    tflite_space_depth,
    tflite_recurrent,
    tflite_svdf,
    tflite_spectral,
    tflite_stored_arithmetic,
    tflite_suppression,
    tflite_text,
    tflite_tiling,
    tflite_unary,
    tflite_windows,
)

DEFINITIONS: dict[OperationType, Definition] = {
    definition.type: definition for family in _FAMILIES for definition in family.DEFINITIONS
}

#: Android operation → the operation of an extension that takes more types, ranks or scales.
WIDER: dict[OperationType, Definition] = {
    definition.widens: definition for definition in DEFINITIONS.values() if definition.widens is not None
}
