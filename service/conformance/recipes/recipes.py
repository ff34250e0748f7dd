"""Maps operations to their recipes."""

from collections.abc import Mapping, Sequence

from neurald.service.conformance.recipes.arithmetic import (
    equal,
    fully_connected,
    matrix_product,
    prelu,
    rank_1_to_4,
    same,
)
from neurald.service.conformance.recipes.detection import (
    detection,
    heatmap,
    limited_boxes,
    proposals,
    regions,
    suppression,
    transformed_boxes,
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

_CONVOLUTIONS: dict[str, Recipe] = {
    "CONV_3D": convolution_3d,
    "CONV_3D_TRANSPOSE": convolution_3d,
    "CONV_2D": convolution,
    "GROUPED_CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": lambda request: convolution(request, depthwise=True),
    "TRANSPOSE_CONV_2D": lambda request: convolution(request, transposed=True),
    "TRANSPOSE_CONV": lambda request: convolution(request, transposed=True),
}

_BINARY = (
    "ADD SUB MUL DIV MAXIMUM MINIMUM POW EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL "
    "LOGICAL_AND LOGICAL_OR SQUARED_DIFFERENCE FLOOR_DIV FLOOR_MOD ATAN2 BITWISE_XOR RIGHT_SHIFT"
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


def _for_all(names: Sequence[str], recipe: Recipe) -> Mapping[str, Recipe]:
    return dict.fromkeys(names, recipe)


#: The recipe of each operation, by its name without the prefix of the extension.
RECIPES: Mapping[str, Recipe] = {
    **_CONVOLUTIONS,
    **_for_all(_BINARY.split(), same),
    **_for_all(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), pooling),
    **_for_all(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "INSTANCE_NORMALIZATION"), image),
    **_for_all(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND"), blocks),
    **_for_all(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN"), recurrent),
    **_for_all(
        ("LSTM", "QUANTIZED_16BIT_LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"),
        long_short_term_memory,
    ),
    **_for_all(("ROI_ALIGN", "ROI_POOLING"), regions),
    **_for_all(("ARGMAX", "ARGMIN", "ARG_MAX", "ARG_MIN", "TOPK_V2", "SOFTMAX", "LOG_SOFTMAX"), rank_1_to_4),
    **_OTHERS,
}

_LSTM_WEIGHTS = (0.0078125, 100)

_LSTM_STATE = (0.0078125, 128)

#: Scales and zero points that operations require of inputs and outputs, by operation and parameter.
QUANTISATIONS: Mapping[str, Mapping[str, tuple[float, int]]] = {
    "HASHTABLE_LOOKUP": {"hits": (1.0, 0)},
    "GENERATE_PROPOSALS": {"anchors": (0.125, 0)},
    "QUANTIZED_16BIT_LSTM": {
        **dict.fromkeys(("input", "output_state_in", "output"), _LSTM_STATE),
        **dict.fromkeys(("cell_state_in", "cell_state_out"), (1 / 2048, 0)),
        **{
            f"{source}_to_{gate}_weights": _LSTM_WEIGHTS
            for source in ("input", "recurrent")
            for gate in ("input", "forget", "cell", "output")
        },
    },
}
