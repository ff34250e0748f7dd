"""The options of builtin operators: the fields of each options table, and their values in a file.

An entry lists the fields of a table in the order of TFLite's schema, as `name:kind=default`. Kinds
are `i` (int32), `l` (int64), `b` (int8, all enumerations), `?` (bool), `f` (float32), `[i]` and
`[f]` (vectors of int32 and float32); `-` is a deprecated field. The default is that of the schema,
0 if omitted.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from neurald.runtime.tflite.file.flatbuffer import (
    BOOL,
    FLOAT32,
    INT8,
    INT32,
    INT64,
    FieldFormat,
    NumberFormat,
    Table,
)
from neurald.runtime.tflite.file.schema import constant_names
from neurald.runtime.tflite.file.schema_enums import BuiltinOptions

Options = Mapping[str, Any]

_TABLE = {
    "AddOptions": "activation:b pot_scale_int16:?=1",
    "BatchMatMulOptions": "adj_x:? adj_y:? asymmetric_quantize_inputs:?",
    "BidirectionalSequenceLSTMOptions": (
        "activation:b cell_clip:f projection_clip:f merge_outputs:? time_major:?=1 "
        "asymmetric_quantize_inputs:?"
    ),
    "BidirectionalSequenceRNNOptions": "time_major:? activation:b merge_outputs:? asymmetric_quantize_inputs:?",
    "BucketizeOptions": "boundaries:[f]",
    "CallOnceOptions": "init_subgraph:i",
    "ConcatenationOptions": "axis:i activation:b",
    "Conv2DOptions": "padding:b stride_width:i stride_height:i activation:b dilation_width:i=1 dilation_height:i=1",
    "Conv3DOptions": (
        "padding:b stride_depth:i stride_width:i stride_height:i activation:b dilation_depth:i=1 "
        "dilation_width:i=1 "
        "dilation_height:i=1"
    ),
    "CumsumOptions": "exclusive:? reverse:?",
    "DepthToSpaceOptions": "block_size:i",
    "DepthwiseConv2DOptions": (
        "padding:b stride_width:i stride_height:i depth_multiplier:i activation:b dilation_width:i=1 "
        "dilation_height:i=1"
    ),
    "DequantizeOptions": "",
    "DivOptions": "activation:b",
    "EmbeddingLookupSparseOptions": "combiner:b",
    "FakeQuantOptions": "minimum:f maximum:f bits:i narrow_range:?",
    "FullyConnectedOptions": "activation:b weights_format:b keep_num_dims:? asymmetric_quantize_inputs:?",
    "GatherOptions": "axis:i batch_dims:i",
    "GeluOptions": "approximate:?",
    "HashtableOptions": "table_id:i key_dtype:b value_dtype:b",
    "IfOptions": "then_subgraph:i else_subgraph:i",
    "L2NormOptions": "activation:b",
    "LSHProjectionOptions": "type:b",
    "LSTMOptions": "activation:b cell_clip:f projection_clip:f kernel_type:b asymmetric_quantize_inputs:?",
    "LeakyReluOptions": "alpha:f",
    "LocalResponseNormalizationOptions": "radius:i bias:f alpha:f beta:f",
    "MirrorPadOptions": "mode:b",
    "MulOptions": "activation:b",
    "OneHotOptions": "axis:i",
    "PackOptions": "values_count:i axis:i",
    "Pool2DOptions": "padding:b stride_width:i stride_height:i filter_width:i filter_height:i activation:b",
    "QuantizeOptions": "",
    "RNNOptions": "activation:b asymmetric_quantize_inputs:?",
    "RandomOptions": "seed:l seed2:l",
    "ReducerOptions": "keep_dims:?",
    "ReshapeOptions": "new_shape:[i]",
    "ResizeBilinearOptions": "- - align_corners:? half_pixel_centers:?",
    "ResizeNearestNeighborOptions": "align_corners:? half_pixel_centers:?",
    "ReverseSequenceOptions": "seq_dim:i batch_dim:i",
    "SVDFOptions": "rank:i activation:b asymmetric_quantize_inputs:?",
    "SequenceRNNOptions": "time_major:? activation:b asymmetric_quantize_inputs:?",
    "SkipGramOptions": "ngram_size:i max_skip_size:i include_all_ngrams:?",
    "SoftmaxOptions": "beta:f",
    "SpaceToDepthOptions": "block_size:i",
    "SplitOptions": "num_splits:i",
    "SplitVOptions": "num_splits:i",
    "SqueezeOptions": "squeeze_dims:[i]",
    "StridedSliceOptions": (
        "begin_mask:i end_mask:i ellipsis_mask:i new_axis_mask:i shrink_axis_mask:i offset:?"
    ),
    "SubOptions": "activation:b pot_scale_int16:?=1",
    "TransposeConvOptions": "padding:b stride_width:i stride_height:i activation:b",
    "UnidirectionalSequenceLSTMOptions": (
        "activation:b cell_clip:f projection_clip:f time_major:? asymmetric_quantize_inputs:? "
        "diagonal_recurrent_tensors:?"
    ),
    "UnpackOptions": "num:i axis:i",
    "WhileOptions": "cond_subgraph:i body_subgraph:i",
}

_KINDS: dict[str, NumberFormat] = {"i": INT32, "l": INT64, "b": INT8, "?": BOOL, "f": FLOAT32}
_ITEM_KINDS: dict[str, NumberFormat] = {"[i]": INT32, "[f]": FLOAT32}


class Field(Struct, frozen=True, kw_only=True):
    """One field.

    Its number in the schema, its kind (see the module's docstring) and its default.
    """

    number: int
    kind: str
    default: float

    @property
    def format(self) -> FieldFormat:
        """The format of the field in an options table."""
        if self.kind in _ITEM_KINDS:
            return FieldFormat(number=self.number)
        default = self.default if self.kind == "f" else int(self.default)
        return FieldFormat(number=self.number, kind=_KINDS[self.kind], default=default)


class OptionsKind(Struct, frozen=True, kw_only=True):
    """A kind of options table: its number in the union `BuiltinOptions`, and its fields."""

    name: str
    number: int
    fields: Mapping[str, Field]
    formats: tuple[FieldFormat, ...]

    def read(self, table: Table | None) -> Options:
        """Reads all fields by name; returns the defaults if the file omits the options."""
        if table is None:
            return {
                name: () if field.kind.startswith("[") else field.default
                for name, field in self.fields.items()
            }
        found: dict[str, Any] = dict(zip(self.fields, table.read(self.name, self.formats), strict=True))
        for name, field in self.fields.items():
            items = _ITEM_KINDS.get(field.kind)
            if items is not None:
                found[name] = table.file.numbers(found[name], items) if found[name] else ()
        return found


def _parse(name: str, line: str) -> OptionsKind:
    fields = {}
    for number, word in enumerate(line.split()):
        if word != "-":
            label, kind = word.split(":")
            kind, _, default = kind.partition("=")
            fields[label] = Field(number=number, kind=kind, default=float(default or 0))
    return OptionsKind(
        name=name,
        number=getattr(BuiltinOptions, name),
        fields=fields,
        formats=tuple(field.format for field in fields.values()),
    )


#: Name → kind.
OPTIONS: Mapping[str, OptionsKind] = {name: _parse(name, line) for name, line in _TABLE.items()}

_NAMES = constant_names(BuiltinOptions)


def options_name(number: int) -> str:
    """Returns the schema's name of the kind of options with that number."""
    return _NAMES.get(number, f"options of kind {number}")
