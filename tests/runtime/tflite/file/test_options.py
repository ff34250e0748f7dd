from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteModel

from neurald.runtime.tflite.file.options import OPTIONS, options_name
from neurald.runtime.tflite.file.schema import Operator, TfliteFile
from neurald.runtime.tflite.legalization import LEGALIZATIONS

pytestmark = pytest.mark.quick

#: Kind → fields as the schema package writes them, and as they are read. No value is the default.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "AddOptions": (
        {"FusedActivationFunction": 1, "PotScaleInt16": False},
        {"activation": 1, "pot_scale_int16": 0},
    ),
    "SubOptions": (
        {"FusedActivationFunction": 2, "PotScaleInt16": False},
        {"activation": 2, "pot_scale_int16": 0},
    ),
    "MulOptions": ({"FusedActivationFunction": 3}, {"activation": 3}),
    "DivOptions": ({"FusedActivationFunction": 4}, {"activation": 4}),
    "ConcatenationOptions": ({"Axis": -1, "FusedActivationFunction": 1}, {"axis": -1, "activation": 1}),
    "Conv2DOptions": (
        {
            "Padding": 1,
            "StrideW": 2,
            "StrideH": 3,
            "FusedActivationFunction": 1,
            "DilationWFactor": 4,
            "DilationHFactor": 5,
        },
        {
            "padding": 1,
            "stride_width": 2,
            "stride_height": 3,
            "activation": 1,
            "dilation_width": 4,
            "dilation_height": 5,
        },
    ),
    "DepthwiseConv2DOptions": (
        {
            "Padding": 1,
            "StrideW": 2,
            "StrideH": 3,
            "DepthMultiplier": 6,
            "FusedActivationFunction": 1,
            "DilationWFactor": 4,
            "DilationHFactor": 5,
        },
        {
            "padding": 1,
            "stride_width": 2,
            "stride_height": 3,
            "depth_multiplier": 6,
            "activation": 1,
            "dilation_width": 4,
            "dilation_height": 5,
        },
    ),
    "DequantizeOptions": ({}, {}),
    "QuantizeOptions": ({}, {}),
    "FullyConnectedOptions": (
        {
            "FusedActivationFunction": 1,
            "WeightsFormat": 1,
            "KeepNumDims": True,
            "AsymmetricQuantizeInputs": True,
        },
        {"activation": 1, "weights_format": 1, "keep_num_dims": 1, "asymmetric_quantize_inputs": 1},
    ),
    "Pool2DOptions": (
        {
            "Padding": 1,
            "StrideW": 2,
            "StrideH": 3,
            "FilterWidth": 4,
            "FilterHeight": 5,
            "FusedActivationFunction": 1,
        },
        {
            "padding": 1,
            "stride_width": 2,
            "stride_height": 3,
            "filter_width": 4,
            "filter_height": 5,
            "activation": 1,
        },
    ),
    "BatchMatMulOptions": (
        {"AdjX": True, "AdjY": True, "AsymmetricQuantizeInputs": True},
        {"adj_x": 1, "adj_y": 1, "asymmetric_quantize_inputs": 1},
    ),
    "Conv3DOptions": (
        {
            "Padding": 1,
            "StrideD": 2,
            "StrideW": 3,
            "StrideH": 4,
            "FusedActivationFunction": 1,
            "DilationDFactor": 5,
            "DilationWFactor": 6,
            "DilationHFactor": 7,
        },
        {
            "padding": 1,
            "stride_depth": 2,
            "stride_width": 3,
            "stride_height": 4,
            "activation": 1,
            "dilation_depth": 5,
            "dilation_width": 6,
            "dilation_height": 7,
        },
    ),
    "DepthToSpaceOptions": ({"BlockSize": 2}, {"block_size": 2}),
    "SpaceToDepthOptions": ({"BlockSize": 2}, {"block_size": 2}),
    "EmbeddingLookupSparseOptions": ({"Combiner": 2}, {"combiner": 2}),
    "TransposeConvOptions": (
        {"Padding": 1, "StrideW": 2, "StrideH": 3, "FusedActivationFunction": 1},
        {"padding": 1, "stride_width": 2, "stride_height": 3, "activation": 1},
    ),
    "ReducerOptions": ({"KeepDims": True}, {"keep_dims": 1}),
    "ReshapeOptions": ({"NewShape": [2, -1]}, {"new_shape": (2, -1)}),
    "ResizeBilinearOptions": (
        {"AlignCorners": True, "HalfPixelCenters": True},
        {"align_corners": 1, "half_pixel_centers": 1},
    ),
    "ResizeNearestNeighborOptions": (
        {"AlignCorners": True, "HalfPixelCenters": True},
        {"align_corners": 1, "half_pixel_centers": 1},
    ),
    "SoftmaxOptions": ({"Beta": 0.5}, {"beta": 0.5}),
    "BucketizeOptions": (
        {"Boundaries": np.array([0.5, 2], np.float32)},
        {"boundaries": (0.5, 2.0)},
    ),
    "CumsumOptions": ({"Exclusive": True, "Reverse": True}, {"exclusive": 1, "reverse": 1}),
    "FakeQuantOptions": (
        {"Min": -0.5, "Max": 2.0, "NumBits": 8, "NarrowRange": True},
        {"minimum": -0.5, "maximum": 2.0, "bits": 8, "narrow_range": 1},
    ),
    "HashtableOptions": (
        {"TableId": 7, "KeyDtype": 4, "ValueDtype": 5},
        {"table_id": 7, "key_dtype": 4, "value_dtype": 5},
    ),
    "SkipGramOptions": (
        {"NgramSize": 3, "MaxSkipSize": 2, "IncludeAllNgrams": True},
        {"ngram_size": 3, "max_skip_size": 2, "include_all_ngrams": 1},
    ),
    "GeluOptions": ({"Approximate": True}, {"approximate": 1}),
    "L2NormOptions": ({"FusedActivationFunction": 1}, {"activation": 1}),
    "LeakyReluOptions": ({"Alpha": 0.25}, {"alpha": 0.25}),
    "LocalResponseNormalizationOptions": (
        {"Radius": 2, "Bias": 1.0, "Alpha": 0.5, "Beta": 0.75},
        {"radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.75},
    ),
    "SqueezeOptions": ({"SqueezeDims": [0, -1]}, {"squeeze_dims": (0, -1)}),
    "GatherOptions": ({"Axis": 2, "BatchDims": 1}, {"axis": 2, "batch_dims": 1}),
    "MirrorPadOptions": ({"Mode": 1}, {"mode": 1}),
    "OneHotOptions": ({"Axis": -1}, {"axis": -1}),
    "PackOptions": ({"ValuesCount": 3, "Axis": 2}, {"values_count": 3, "axis": 2}),
    "LSHProjectionOptions": ({"Type": 2}, {"type": 2}),
    "RandomOptions": ({"Seed": 1 << 40, "Seed2": -2}, {"seed": 1 << 40, "seed2": -2}),
    "ReverseSequenceOptions": ({"SeqDim": 2, "BatchDim": 1}, {"seq_dim": 2, "batch_dim": 1}),
    "SplitOptions": ({"NumSplits": 3}, {"num_splits": 3}),
    "SplitVOptions": ({"NumSplits": 4}, {"num_splits": 4}),
    "StridedSliceOptions": (
        {
            "BeginMask": 1,
            "EndMask": 2,
            "EllipsisMask": 3,
            "NewAxisMask": 4,
            "ShrinkAxisMask": 5,
            "Offset": True,
        },
        {
            "begin_mask": 1,
            "end_mask": 2,
            "ellipsis_mask": 3,
            "new_axis_mask": 4,
            "shrink_axis_mask": 5,
            "offset": 1,
        },
    ),
    "CallOnceOptions": ({"InitSubgraphIndex": 3}, {"init_subgraph": 3}),
    "IfOptions": (
        {"ThenSubgraphIndex": 2, "ElseSubgraphIndex": 3},
        {"then_subgraph": 2, "else_subgraph": 3},
    ),
    "WhileOptions": (
        {"CondSubgraphIndex": 2, "BodySubgraphIndex": 3},
        {"cond_subgraph": 2, "body_subgraph": 3},
    ),
    "LSTMOptions": (
        {
            "FusedActivationFunction": 4,
            "CellClip": 0.5,
            "ProjClip": 1.5,
            "KernelType": 1,
            "AsymmetricQuantizeInputs": True,
        },
        {
            "activation": 4,
            "cell_clip": 0.5,
            "projection_clip": 1.5,
            "kernel_type": 1,
            "asymmetric_quantize_inputs": 1,
        },
    ),
    "UnidirectionalSequenceLSTMOptions": (
        {
            "FusedActivationFunction": 4,
            "CellClip": 0.5,
            "ProjClip": 1.5,
            "TimeMajor": True,
            "AsymmetricQuantizeInputs": True,
            "DiagonalRecurrentTensors": True,
        },
        {
            "activation": 4,
            "cell_clip": 0.5,
            "projection_clip": 1.5,
            "time_major": 1,
            "asymmetric_quantize_inputs": 1,
            "diagonal_recurrent_tensors": 1,
        },
    ),
    "BidirectionalSequenceLSTMOptions": (
        {
            "FusedActivationFunction": 4,
            "CellClip": 0.5,
            "ProjClip": 1.5,
            "MergeOutputs": True,
            "TimeMajor": False,
            "AsymmetricQuantizeInputs": True,
        },
        {
            "activation": 4,
            "cell_clip": 0.5,
            "projection_clip": 1.5,
            "merge_outputs": 1,
            "time_major": 0,
            "asymmetric_quantize_inputs": 1,
        },
    ),
    "RNNOptions": (
        {"FusedActivationFunction": 4, "AsymmetricQuantizeInputs": True},
        {"activation": 4, "asymmetric_quantize_inputs": 1},
    ),
    "SequenceRNNOptions": (
        {"TimeMajor": True, "FusedActivationFunction": 4, "AsymmetricQuantizeInputs": True},
        {"time_major": 1, "activation": 4, "asymmetric_quantize_inputs": 1},
    ),
    "BidirectionalSequenceRNNOptions": (
        {
            "TimeMajor": True,
            "FusedActivationFunction": 4,
            "MergeOutputs": True,
            "AsymmetricQuantizeInputs": True,
        },
        {"time_major": 1, "activation": 4, "merge_outputs": 1, "asymmetric_quantize_inputs": 1},
    ),
    "SVDFOptions": (
        {"Rank": 2, "FusedActivationFunction": 4, "AsymmetricQuantizeInputs": True},
        {"rank": 2, "activation": 4, "asymmetric_quantize_inputs": 1},
    ),
    "UnpackOptions": ({"Num": 3, "Axis": -1}, {"num": 3, "axis": -1}),
}


def written(kind: str, **values: Any) -> Operator:
    file = TfliteModel()
    file.subgraph().operator("ABS", (), (), kind, **values)
    return TfliteFile(memoryview(file.build())).subgraph(0).operators[0]


def test_every_kind_of_options_is_tested() -> None:
    assert set(CASES) == set(OPTIONS)
    assert {legalization.options for legalization in LEGALIZATIONS.values()} - {None} <= set(OPTIONS)


@sweep("name", CASES)
def test_fields_equal_the_schema(name: str) -> None:
    given, expected = CASES[name]
    operator = written(name, **given)
    assert operator.options_type == OPTIONS[name].number
    assert OPTIONS[name].read(operator.options) == expected


@sweep("name", CASES)
def test_defaults_equal_the_schema(name: str) -> None:
    options = OPTIONS[name].read(written(name).options)
    assert options == OPTIONS[name].read(None)
    nonzero = {field for field, value in options.items() if value}
    assert nonzero <= {"dilation_depth", "dilation_width", "dilation_height", "pot_scale_int16", "time_major"}


def test_names() -> None:
    assert options_name(1) == "Conv2DOptions"
    assert options_name(255) == "options of kind 255"
