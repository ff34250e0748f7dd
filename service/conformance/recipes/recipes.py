"""Maps operations to recipes."""

from collections.abc import Mapping, Sequence

from neurald.service.conformance.recipes.arithmetic import (
    equal,
    fully_connected,
    matrix_product,
    one_rank,
    prelu,
    same,
)
from neurald.service.conformance.recipes.image import blocks, convolution, convolution_3d, image, pooling
from neurald.service.conformance.recipes.movement import (
    alike,
    broadcast,
    concatenation,
    densify,
    diagonal,
    fill,
    gather,
    gather_coordinates,
    hashed,
    lookup,
    reshape,
    segments,
    shuffle,
    split,
    split_sizes,
    squeeze,
    unpack,
)
from neurald.service.conformance.recipes.recipe import Recipe
from neurald.service.conformance.recipes.recurrent import long_short_term_memory, recurrent, svdf
from neurald.service.conformance.recipes.region import (
    detection,
    heatmap,
    limited_boxes,
    proposals,
    regions,
    suppression,
    transformed_boxes,
)

_CONVOLUTIONS: dict[str, Recipe] = {
    "CONV_3D": convolution_3d,
    "CONV_3D_TRANSPOSE": convolution_3d,
    "CONV_2D": convolution,
    "GROUPED_CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": lambda order: convolution(order, depthwise=True),
    "TRANSPOSE_CONV_2D": lambda order: convolution(order, transposed=True),
    "TRANSPOSE_CONV": lambda order: convolution(order, transposed=True),
}

_TWO = (
    "ADD SUB MUL DIV MAXIMUM MINIMUM POW EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL LOGICAL_AND LOGICAL_OR "
    "SQUARED_DIFFERENCE FLOOR_DIV FLOOR_MOD ATAN2 BITWISE_XOR RIGHT_SHIFT"
)

_OTHERS: dict[str, Recipe] = {
    "SELECT": equal,
    "SELECT_V2": equal,
    "PRELU": prelu,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": matrix_product,
    "CONCATENATION": concatenation,
    "PACK": alike,
    "ADD_N": alike,
    "SPLIT": split,
    "SPLIT_V": split_sizes,
    "UNPACK": unpack,
    "GATHER": gather,
    "GATHER_ND": gather_coordinates,
    "EMBEDDING_LOOKUP": lookup,
    "HASHTABLE_LOOKUP": lookup,
    "LSH_PROJECTION": hashed,
    "SVDF": svdf,
    "AXIS_ALIGNED_BBOX_TRANSFORM": transformed_boxes,
    "BOX_WITH_NMS_LIMIT": limited_boxes,
    "GENERATE_PROPOSALS": proposals,
    "HEATMAP_MAX_KEYPOINT": heatmap,
    "DETECTION_POSTPROCESSING": detection,
    "DETECTION_POSTPROCESS": detection,
    "DENSIFY": densify,
    "RESHAPE": reshape,
    "SQUEEZE": squeeze,
    "BROADCAST_TO": broadcast,
    "CHANNEL_SHUFFLE": shuffle,
    "FILL": fill,
    "NON_MAX_SUPPRESSION_V4": suppression,
    "NON_MAX_SUPPRESSION_V5": suppression,
    "SEGMENT_SUM": segments,
    "MATRIX_SET_DIAG": diagonal,
    "RANDOM_UNIFORM": fill,
    "RANDOM_STANDARD_NORMAL": fill,
    "STABLEHLO_ADD": equal,
    "STABLEHLO_MULTIPLY": equal,
    "STABLEHLO_MAXIMUM": equal,
    "STABLEHLO_MINIMUM": equal,
}


def _each(names: Sequence[str], recipe: Recipe) -> Mapping[str, Recipe]:
    return dict.fromkeys(names, recipe)


#: By operation name without the extension's prefix.
RECIPES: Mapping[str, Recipe] = {
    **_CONVOLUTIONS,
    **_each(_TWO.split(), same),
    **_each(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), pooling),
    **_each(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "INSTANCE_NORMALIZATION"), image),
    **_each(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND"), blocks),
    **_each(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN"), recurrent),
    **_each(
        ("LSTM", "QUANTIZED_16BIT_LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"),
        long_short_term_memory,
    ),
    **_each(("ROI_ALIGN", "ROI_POOLING"), regions),
    **_each(("ARGMAX", "ARGMIN", "ARG_MAX", "ARG_MIN", "TOPK_V2", "SOFTMAX", "LOG_SOFTMAX"), one_rank),
    **_OTHERS,
}

_OF_WEIGHTS = (0.0078125, 100)

_OF_STATE = (0.0078125, 128)

#: Required scales and zero points of arguments and results, by operation and parameter.
QUANTISATIONS: Mapping[str, Mapping[str, tuple[float, int]]] = {
    "HASHTABLE_LOOKUP": {"hits": (1.0, 0)},
    "GENERATE_PROPOSALS": {"anchors": (0.125, 0)},
    "QUANTIZED_16BIT_LSTM": {
        **dict.fromkeys(("input", "output_state_in", "output"), _OF_STATE),
        **dict.fromkeys(("cell_state_in", "cell_state_out"), (1 / 2048, 0)),
        **{
            f"{source}_to_{gate}_weights": _OF_WEIGHTS
            for source in ("input", "recurrent")
            for gate in ("input", "forget", "cell", "output")
        },
    },
}
