"""A small writer of `.tflite` files, for tests.

    model = TfliteModel()
    graph = model.subgraph()
    x = graph.tensor((1, 4), name="x")
    w = graph.tensor((2, 4), data=weights)
    y = graph.tensor((1, 2), name="y")
    graph.operator("FULLY_CONNECTED", (x, w), (y,), "FullyConnectedOptions",
    FusedActivationFunction=1) graph.inputs, graph.outputs = (x,), (y,)
    content = model.build()

Names of operators, types and options are those of the schema. Nothing is checked, so that damaged
files can be written as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import tflite

from neurald.hal.model.strings import encode_strings

_DTYPES = {
    "FLOAT32": "<f4",
    "FLOAT16": "<f2",
    "FLOAT64": "<f8",
    "COMPLEX64": "<c8",
    "COMPLEX128": "<c16",
    "UINT64": "<u8",
    "UINT32": "<u4",
    "UINT16": "<u2",
    "INT64": "<i8",
    "INT32": "<i4",
    "INT16": "<i2",
    "INT8": "i1",
    "UINT8": "u1",
    "BOOL": "?",
}


#: Traversal order, block map, and for each level: format, length, and for a sparse level segments
#: and indices.
Sparsity = tuple[Sequence[int], Sequence[int], Sequence[tuple[Any, ...]]]


@dataclass(kw_only=True)
class _Tensor:
    shape: Sequence[int]
    type: str | int
    name: str | bytes | None
    data: Any
    scale: Sequence[float]
    zero_point: Sequence[int]
    quantized_dimension: int
    shape_signature: Sequence[int] | None
    has_rank: bool
    is_variable: bool
    is_sparse: bool
    sparsity: Sparsity | None
    is_external: bool
    buffer: int | None
    blocks: tuple[int, int] | None
    details: int

    def content(self) -> bytes | None:
        """Returns the constant's bytes; arrays are converted to the tensor's type."""
        if self.data is None or isinstance(self.data, bytes):
            return self.data
        if self.type == "STRING":
            return encode_strings(np.asarray(self.data, object)).tobytes()
        return np.ascontiguousarray(self.data, _DTYPES[str(self.type)]).tobytes()


@dataclass(kw_only=True)
class _Operator:
    code: int
    custom_code: str | None
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: str | None
    values: Mapping[str, Any]
    custom_options: bytes | None
    intermediates: Sequence[int]
    new_options: tuple[int, Sequence[int]] | None


@dataclass
class TfliteGraph:
    """One subgraph; `inputs` and `outputs` are tensor indexes."""

    inputs: Sequence[int] = ()
    outputs: Sequence[int] = ()
    tensors: list[_Tensor] = field(default_factory=list)
    operators: list[_Operator] = field(default_factory=list)

    def tensor(
        self,
        shape: Sequence[int],
        type_: str | int = "FLOAT32",
        *,
        name: str | bytes | None = "",
        data: Any = None,
        scale: float | Sequence[float] = (),
        zero_point: int | Sequence[int] | None = None,
        quantized_dimension: int = 0,
        shape_signature: Sequence[int] | None = None,
        has_rank: bool = False,
        is_variable: bool = False,
        is_sparse: bool = False,
        sparsity: Sparsity | None = None,
        is_external: bool = False,
        buffer: int | None = None,
        blocks: tuple[int, int] | None = None,
        details: int = 2,
    ) -> int:
        """Adds a tensor.

        Args:
            shape: its dimensions.
            type_: name in `TensorType`, or any number.
            name: None omits it; bytes are written unchanged.
            data: value of a constant: an array, or raw bytes.
            scale, zero_point: one or several; zero points are 0 by default.
            quantized_dimension: axis of several scales.
            shape_signature: -1 for dimensions that are not fixed.
            has_rank: whether an empty shape means a scalar.
            is_variable, is_sparse: see the schema.
            sparsity: layout of a sparse constant; None writes empty sparsity parameters.
            is_external: whether the data are after the flatbuffer.
            buffer: refer to this buffer regardless of the data.
            blocks: tensor of scales and block length of a blockwise quantised tensor.
            details: kind of quantisation details that the file declares for `blocks`.

        Returns:
            Its index.
        """
        scales = (scale,) if isinstance(scale, float | int) else tuple(scale)
        if zero_point is None:
            zero_point = (0,) * len(scales)
        self.tensors.append(
            _Tensor(
                shape=shape,
                type=type_,
                name=name,
                data=data,
                scale=scales,
                zero_point=(zero_point,) if isinstance(zero_point, int) else tuple(zero_point),
                quantized_dimension=quantized_dimension,
                shape_signature=shape_signature,
                has_rank=has_rank,
                is_variable=is_variable,
                is_sparse=is_sparse,
                sparsity=sparsity,
                is_external=is_external,
                buffer=buffer,
                blocks=blocks,
                details=details,
            )
        )
        return len(self.tensors) - 1

    def operator(
        self,
        code: str | int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str | None = None,
        *,
        custom_code: str | None = None,
        custom_options: bytes | None = None,
        intermediates: Sequence[int] = (),
        new_options: tuple[int, Sequence[int]] | None = None,
        **values: Any,
    ) -> None:
        """Adds an operator.

        Args:
            code: name in `BuiltinOperator`, or any number.
            inputs, outputs: tensor indexes, -1 for an omitted input.
            options: name of the table of options, old or new (`BuiltinOptions2`); None omits it.
            custom_code: name of a custom operator.
            custom_options: option bytes of a custom operator.
            intermediates: tensor indexes.
            new_options: options that the schema package does not have: their kind, and the list
                that is their only field.
            values: fields of the options, spelled as in the schema package (`StrideW`).
        """
        number = getattr(tflite.BuiltinOperator, code) if isinstance(code, str) else code
        self.operators.append(
            _Operator(
                code=number,
                custom_code=custom_code,
                inputs=inputs,
                outputs=outputs,
                options=options,
                values=values,
                custom_options=custom_options,
                intermediates=intermediates,
                new_options=new_options,
            )
        )


@dataclass
class TfliteModel:
    """A whole file.

    Attributes:
        old_codes: write operator codes in the 8-bit field only, like old files, instead of in both
            fields.
        signatures: name → (subgraph, input name → tensor, output name → tensor).
        metadata: name → bytes.
    """

    version: int = 3
    identifier: bytes = b"TFL3"
    old_codes: bool = False
    graphs: list[TfliteGraph] = field(default_factory=list)
    signatures: list[tuple[str | None, int, Mapping[str, int], Mapping[str, int]]] = field(
        default_factory=list
    )
    metadata: dict[str, bytes] = field(default_factory=dict)

    def subgraph(self) -> TfliteGraph:
        """Adds a subgraph."""
        self.graphs.append(TfliteGraph())
        return self.graphs[-1]

    def signature(
        self, name: str | None, inputs: Mapping[str, int], outputs: Mapping[str, int], subgraph: int = 0
    ) -> None:
        """Adds a signature."""
        self.signatures.append((name, subgraph, inputs, outputs))

    def write(self, path: Path) -> Path:
        """Writes the file; returns its path."""
        path.write_bytes(self.build())
        return path

    def build(self) -> bytes:
        """Returns the content of the file."""
        outside = [t.content() or b"" for g in self.graphs for t in g.tensors if t.is_external]
        content = _Writer(self, [2] * len(outside)).finish()
        if not outside:
            return content
        # Offsets depend on the flatbuffer's length, which does not depend on them.
        offsets, end = [], len(content)
        for data in outside:
            end += -end % 16
            offsets.append(end)
            end += len(data)
        whole = bytearray(_Writer(self, offsets).finish())
        for offset, data in zip(offsets, outside, strict=True):
            whole.extend(bytes(offset - len(whole)) + data)
        return bytes(whole)


class _Writer:
    """Writes one model, leaves first, since a flatbuffer grows from its end."""

    def __init__(self, model: TfliteModel, offsets: Sequence[int]) -> None:
        self._model = model
        self._offsets = iter(offsets)
        self._builder = flatbuffers.Builder(1024)
        self._buffers: list[int] = []
        self._codes: dict[tuple[int, str | None], int] = {}

    def finish(self) -> bytes:
        self._table("Buffer", Data=None)
        self._buffers.append(self._last)
        graphs = [self._graph(graph) for graph in self._model.graphs]
        signatures = [self._signature(*signature) for signature in self._model.signatures]
        codes = [self._code(code, custom) for code, custom in self._codes]
        metadata = [self._metadata(name, content) for name, content in self._model.metadata.items()]
        self._table(
            "Model",
            Version=self._model.version,
            OperatorCodes=self._tables(codes),
            Subgraphs=self._tables(graphs),
            Buffers=self._tables(self._buffers),
            SignatureDefs=self._tables(signatures) if signatures else None,
            Metadata=self._tables(metadata) if metadata else None,
        )
        self._builder.Finish(self._last, file_identifier=self._model.identifier)
        return bytes(self._builder.Output())

    def _metadata(self, name: str, content: bytes) -> int:
        self._buffers.append(self._table("Buffer", Data=np.frombuffer(content, np.uint8)))
        return self._table("Metadata", Name=name, Buffer=len(self._buffers) - 1)

    def _table(self, kind: str, **fields: Any) -> int:
        """Writes a table of the schema.

        Fields are offsets, numbers, lists (of int32), arrays of numbers, or None to omit them.
        """
        numbers = {name: self._field(value) for name, value in fields.items()}
        getattr(tflite, f"{kind}Start")(self._builder)
        for name, value in numbers.items():
            if value is not None:
                getattr(tflite, f"{kind}Add{name}")(self._builder, value)
        self._last = int(getattr(tflite, f"{kind}End")(self._builder))
        return self._last

    def _field(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return int(self._builder.CreateNumpyVector(value))
        if isinstance(value, list | tuple):
            return self._vector(value)
        return self._string(value) if isinstance(value, str) else value

    def _vector(self, values: Sequence[int], dtype: str = "<i4") -> int:
        return int(self._builder.CreateNumpyVector(np.asarray(values, dtype)))

    def _tables(self, offsets: Sequence[int]) -> int:
        self._builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self._builder.PrependUOffsetTRelative(offset)
        return int(self._builder.EndVector())

    def _string(self, text: str | bytes | None) -> int | None:
        return None if text is None else int(self._builder.CreateString(text))

    def _graph(self, graph: TfliteGraph) -> int:
        tensors = [self._tensor(tensor) for tensor in graph.tensors]
        operators = [self._operator(operator) for operator in graph.operators]
        return self._table(
            "SubGraph",
            Tensors=self._tables(tensors),
            Inputs=list(graph.inputs),
            Outputs=list(graph.outputs),
            Operators=self._tables(operators),
        )

    def _tensor(self, tensor: _Tensor) -> int:
        quantization = None
        if tensor.blocks is not None:
            details = self._blocks(*tensor.blocks)
            quantization = self._table("QuantizationParameters", DetailsType=tensor.details, Details=details)
        elif tensor.scale or tensor.zero_point:
            quantization = self._table(
                "QuantizationParameters",
                Scale=self._vector(tensor.scale, "<f4"),  # type: ignore[arg-type]
                ZeroPoint=self._vector(tensor.zero_point, "<i8"),
                QuantizedDimension=tensor.quantized_dimension,
            )
        sparsity = None
        if tensor.sparsity is not None:
            sparsity = self._sparsity(tensor.sparsity)
        elif tensor.is_sparse:
            sparsity = self._table("SparsityParameters")
        return self._table(
            "Tensor",
            Shape=list(tensor.shape),
            Type=getattr(tflite.TensorType, tensor.type) if isinstance(tensor.type, str) else tensor.type,
            Buffer=self._buffer(tensor),
            Name=self._string(tensor.name),
            Quantization=quantization,
            IsVariable=tensor.is_variable,
            Sparsity=sparsity,
            ShapeSignature=None if tensor.shape_signature is None else list(tensor.shape_signature),
            HasRank=tensor.has_rank,
        )

    def _sparsity(self, sparsity: Sparsity) -> int:
        order, block_map, levels = sparsity
        offsets = [self._level(*level) for level in levels]
        return self._table(
            "SparsityParameters",
            TraversalOrder=list(order),
            BlockMap=list(block_map),
            DimMetadata=self._tables(offsets),
        )

    def _level(self, format_: int, length: int, *lists: np.ndarray[Any, Any]) -> int:
        fields: dict[str, int] = {}
        for name, numbers in zip(("ArraySegments", "ArrayIndices"), lists, strict=False):
            kind = f"{numbers.dtype.name.capitalize()}Vector"
            fields[f"{name}Type"] = getattr(tflite.SparseIndexVector, kind)
            fields[name] = self._table(kind, Values=numbers)
        return self._table("DimensionMetadata", Format=format_, DenseSize=length, **fields)

    def _buffer(self, tensor: _Tensor) -> int:
        content = tensor.content()
        if tensor.buffer is not None:
            return tensor.buffer
        if content is None:
            return 0
        if tensor.is_external:
            offset = next(self._offsets)
            self._buffers.append(self._table("Buffer", Offset=offset, Size=len(content)))
        else:
            self._builder.StartVector(1, len(content), 16)
            self._builder.head = self._builder.head - len(content)
            self._builder.Bytes[self._builder.head : self._builder.head + len(content)] = content
            self._buffers.append(self._table("Buffer", Data=int(self._builder.EndVector())))
        return len(self._buffers) - 1

    def _operator(self, operator: _Operator) -> int:
        key = operator.code, operator.custom_code
        code = self._codes.setdefault(key, len(self._codes))
        options = None
        if operator.options is not None:
            options = self._table(operator.options, **operator.values)
        is_new = operator.options is not None and hasattr(tflite.BuiltinOptions2, operator.options)
        union = tflite.BuiltinOptions2 if is_new else tflite.BuiltinOptions
        kind = getattr(union, operator.options) if operator.options else 0
        if operator.new_options is not None:
            is_new, (kind, numbers) = True, operator.new_options
            options = self._one_list(numbers)
        custom_options = None
        if operator.custom_options is not None:
            custom_options = self._vector(list(operator.custom_options), "u1")
        return self._table(
            "Operator",
            OpcodeIndex=code,
            Inputs=list(operator.inputs),
            Outputs=list(operator.outputs),
            BuiltinOptionsType=0 if is_new else kind,
            BuiltinOptions=None if is_new else options,
            BuiltinOptions2Type=kind if is_new else 0,
            BuiltinOptions2=options if is_new else None,
            CustomOptions=custom_options,
            Intermediates=list(operator.intermediates) if operator.intermediates else None,
        )

    def _blocks(self, scales: int, length: int) -> int:
        """Writes a table that the schema package lacks: scales, zero points, block length."""
        self._builder.StartObject(3)
        for place, value in enumerate((scales, -1, length)):
            self._builder.PrependInt32Slot(place, value, 0)
        return int(self._builder.EndObject())

    def _one_list(self, numbers: Sequence[int]) -> int:
        """Writes a table whose only field is a list."""
        vector = self._vector(numbers)
        self._builder.StartObject(1)
        self._builder.PrependUOffsetTRelativeSlot(0, vector, 0)
        return int(self._builder.EndObject())

    def _code(self, code: int, custom_code: str | None) -> int:
        return self._table(
            "OperatorCode",
            DeprecatedBuiltinCode=min(code, 127),
            CustomCode=self._string(custom_code),
            BuiltinCode=None if self._model.old_codes else code,
        )

    def _signature(
        self, name: str | None, subgraph: int, inputs: Mapping[str, int], outputs: Mapping[str, int]
    ) -> int:
        maps = [
            [
                self._table("TensorMap", Name=self._string(key), TensorIndex=index)
                for key, index in side.items()
            ]
            for side in (inputs, outputs)
        ]
        return self._table(
            "SignatureDef",
            Inputs=self._tables(maps[0]),
            Outputs=self._tables(maps[1]),
            SignatureKey=self._string(name),
            SubgraphIndex=subgraph,
        )
