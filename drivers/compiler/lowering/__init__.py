"""What the operations compute, for compilers: one family a file, named as the family in `neurald.hal.operations`.

`LOWERINGS` is the table of all of them.
"""

from neurald.drivers.compiler.lowering import (
    activation,
    boxes,
    casting,
    comparison,
    concatenation,
    convolution,
    densify,
    elementwise,
    fully_connected,
    gathering,
    hard_swish,
    lstm,
    matrix_product,
    normalization,
    padding,
    pooling,
    proposals,
    quantization,
    quantized_lstm,
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
from neurald.drivers.compiler.lowering.table import Lowerings
from neurald.drivers.compiler.lowering.tflite import activation as tflite_activation
from neurald.drivers.compiler.lowering.tflite import arithmetic as tflite_arithmetic
from neurald.drivers.compiler.lowering.tflite import bitwise as tflite_bitwise
from neurald.drivers.compiler.lowering.tflite import casting as tflite_casting
from neurald.drivers.compiler.lowering.tflite import comparison as tflite_comparison
from neurald.drivers.compiler.lowering.tflite import convolution as tflite_convolution
from neurald.drivers.compiler.lowering.tflite import convolution_3d as tflite_convolution_3d
from neurald.drivers.compiler.lowering.tflite import embedding as tflite_embedding
from neurald.drivers.compiler.lowering.tflite import fully_connected as tflite_fully_connected
from neurald.drivers.compiler.lowering.tflite import gathering as tflite_gathering
from neurald.drivers.compiler.lowering.tflite import generating as tflite_generating
from neurald.drivers.compiler.lowering.tflite import matrix as tflite_matrix
from neurald.drivers.compiler.lowering.tflite import matrix_product as tflite_matrix_product
from neurald.drivers.compiler.lowering.tflite import normalization as tflite_normalization
from neurald.drivers.compiler.lowering.tflite import padding as tflite_padding
from neurald.drivers.compiler.lowering.tflite import pooling as tflite_pooling
from neurald.drivers.compiler.lowering.tflite import quantization as tflite_quantization
from neurald.drivers.compiler.lowering.tflite import recurrent as tflite_recurrent
from neurald.drivers.compiler.lowering.tflite import reduction as tflite_reduction
from neurald.drivers.compiler.lowering.tflite import regions as tflite_regions
from neurald.drivers.compiler.lowering.tflite import resizing as tflite_resizing
from neurald.drivers.compiler.lowering.tflite import reversing as tflite_reversing
from neurald.drivers.compiler.lowering.tflite import scattering as tflite_scattering
from neurald.drivers.compiler.lowering.tflite import searching as tflite_searching
from neurald.drivers.compiler.lowering.tflite import segments as tflite_segments
from neurald.drivers.compiler.lowering.tflite import shaping as tflite_shaping
from neurald.drivers.compiler.lowering.tflite import slicing as tflite_slicing
from neurald.drivers.compiler.lowering.tflite import softmax as tflite_softmax
from neurald.drivers.compiler.lowering.tflite import space_depth as tflite_space_depth
from neurald.drivers.compiler.lowering.tflite import stored_arithmetic as tflite_stored_arithmetic
from neurald.drivers.compiler.lowering.tflite import svdf as tflite_svdf
from neurald.drivers.compiler.lowering.tflite import tiling as tflite_tiling
from neurald.drivers.compiler.lowering.tflite import unary as tflite_unary
from neurald.drivers.compiler.lowering.tflite import windows as tflite_windows

_FAMILIES: tuple[Lowerings, ...] = (
    activation.LOWERINGS,
    elementwise.LOWERINGS,
    convolution.LOWERINGS,
    fully_connected.LOWERINGS,
    lstm.LOWERINGS,
    rnn.LOWERINGS,
    sequence_lstm.LOWERINGS,
    svdf.LOWERINGS,
    transpose_convolution.LOWERINGS,
    tflite_convolution.LOWERINGS,
    tflite_fully_connected.LOWERINGS,
    tflite_svdf.LOWERINGS,
    reduction.LOWERINGS,
    pooling.LOWERINGS,
    softmax.LOWERINGS,
    normalization.LOWERINGS,
    tflite_recurrent.LOWERINGS,
    tflite_reduction.LOWERINGS,
    tflite_pooling.LOWERINGS,
    tflite_softmax.LOWERINGS,
    casting.LOWERINGS,
    comparison.LOWERINGS,
    hard_swish.LOWERINGS,
    quantization.LOWERINGS,
    quantized_lstm.LOWERINGS,
    selection.LOWERINGS,
    unary.LOWERINGS,
    tflite_activation.LOWERINGS,
    tflite_arithmetic.LOWERINGS,
    tflite_bitwise.LOWERINGS,
    tflite_casting.LOWERINGS,
    tflite_comparison.LOWERINGS,
    tflite_quantization.LOWERINGS,
    tflite_stored_arithmetic.LOWERINGS,
    tflite_unary.LOWERINGS,
    concatenation.LOWERINGS,
    densify.LOWERINGS,
    gathering.LOWERINGS,
    padding.LOWERINGS,
    reshaping.LOWERINGS,
    slicing.LOWERINGS,
    space_depth.LOWERINGS,
    tiling.LOWERINGS,
    transposing.LOWERINGS,
    tflite_embedding.LOWERINGS,
    tflite_gathering.LOWERINGS,
    tflite_generating.LOWERINGS,
    tflite_matrix.LOWERINGS,
    tflite_padding.LOWERINGS,
    tflite_regions.LOWERINGS,
    tflite_reversing.LOWERINGS,
    tflite_scattering.LOWERINGS,
    tflite_shaping.LOWERINGS,
    tflite_slicing.LOWERINGS,
    tflite_space_depth.LOWERINGS,
    tflite_tiling.LOWERINGS,
    resizing.LOWERINGS,
    searching.LOWERINGS,
    tflite_resizing.LOWERINGS,
    tflite_searching.LOWERINGS,
    tflite_normalization.LOWERINGS,
    matrix_product.LOWERINGS,
    tflite_matrix_product.LOWERINGS,
    proposals.LOWERINGS,
    regions.LOWERINGS,
    tflite_convolution_3d.LOWERINGS,
    tflite_segments.LOWERINGS,
    tflite_windows.LOWERINGS,
    boxes.LOWERINGS,
)

LOWERINGS: Lowerings = {kind: lowering for family in _FAMILIES for kind, lowering in family.items()}
