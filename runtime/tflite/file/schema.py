"""Reads the content of a `.tflite` file.

Tensors, operators, subgraphs and signatures, with every index checked.

Fields are numbered as in TFLite's schema, version 3.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from neurald.hal.errors import BadData
from neurald.runtime.tflite.file.flatbuffer import (
    BOOL,
    FLOAT32,
    INT8,
    INT32,
    INT64,
    UINT8,
    UINT32,
    UINT64,
    FieldFormat,
    Flatbuffer,
    Table,
    TableReader,
)
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator, TensorType

_IDENTIFIER = b"TFL3"
#: The identifier that plan files have in its place; see `neurald.runtime.plan_files.container`.
_PLAN_FILE_IDENTIFIER = b"PLAN"
_VERSION = 3

#: An omitted operator input.
OMITTED = -1


def constant_names(enumeration: type) -> Mapping[int, str]:
    """Returns the names of an enumeration of the schema package, by number."""
    return {number: name for name, number in vars(enumeration).items() if isinstance(number, int)}


#: A builtin operator, and its kind of options, that are newer than the schema package.
STABLEHLO_CASE = 209
STABLEHLO_CASE_OPTIONS = 23

#: Kinds of quantisation details; the second one is newer than the schema package.
_NO_DETAILS, _BLOCKWISE_DETAILS = 0, 2

#: Tensor types that are newer than the schema package.
INT2, UINT4 = 19, 20

#: Names of builtin operators in the schema, by number.
OPERATOR_NAMES: Mapping[int, str] = {**constant_names(BuiltinOperator), STABLEHLO_CASE: "STABLEHLO_CASE"}
_TYPE_NAMES = {**constant_names(TensorType), INT2: "INT2", UINT4: "UINT4"}


def shown(name: str) -> str:
    """Formats a name from the file for messages: quoted, on one line, truncated."""
    return repr(name if len(name) <= 80 else name[:77] + "...")


#: The file, and the fields of a quantisation table: positions of scales and zero points, the kind
#: and position of its details, and the dimension of the channels.
_QuantizationFields: TypeAlias = tuple[Flatbuffer, int, int, int, int, int]


class Quantization(Struct, frozen=True, kw_only=True):
    """Quantisation parameters of a tensor.

    Attributes:
        scales, zero_points: scales and zero points of equal length: one for the whole tensor, or
            one per index along `dimension`.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    dimension: int


class BlockQuantization(Struct, frozen=True, kw_only=True):
    """Blockwise quantisation of the rows of a matrix, with one scale per block.

    Zero points of blocks are treated as 0 even if the file has others, as LiteRT does.

    Attributes:
        scales: index of the tensor with the scales, (rows, blocks of a row).
        length: number of elements of a block.
    """

    scales: int
    length: int


class Tensor(Struct, frozen=True, kw_only=True):
    """A tensor of a subgraph.

    Attributes:
        type: a number of `TensorType`.
        shape: without negative lengths.
        shape_signature: empty, or as long as `shape`, with -1 for unknown lengths.
        has_rank: whether an empty shape is a scalar, not an unknown rank.
        data: position and length of a constant's value in the file; None for other tensors.
        sparsity: the sparse format of the value; None if it is dense.
        block_scales: index of the tensor with the block scales, if it differs from the file's
            because the tensor was moved to another subgraph.
    """

    index: int
    name: str
    type: int
    shape: tuple[int, ...]
    shape_signature: tuple[int, ...]
    has_rank: bool
    data: tuple[int, int] | None
    is_variable: bool
    sparsity: Table | None
    _quantization: "_QuantizationFields | None"
    block_scales: int | None = None

    @property
    def type_name(self) -> str:
        """The schema's name of the type."""
        return _TYPE_NAMES.get(self.type, str(self.type))

    @property
    def may_be_quantized(self) -> bool:
        """False if the file has neither scales nor details of a quantisation for the tensor."""
        return self._quantization is not None and bool(self._quantization[1] or self._quantization[3])

    def quantization(self) -> Quantization | None:
        """Returns the tensor's quantisation; None if it has none, or if it is blockwise.

        Raises:
            BadData: the numbers of scales, zero points and indexes differ, or the quantisation is
                of a custom kind.
        """
        if self._quantization is None:
            return None
        file, scales_at, zero_points_at, kind, _, dimension = self._quantization
        if kind == _BLOCKWISE_DETAILS:
            return None
        if kind != _NO_DETAILS:
            raise BadData(
                f"{self} has quantisation details of kind {kind}; {_NO_DETAILS} (none) or "
                f"{_BLOCKWISE_DETAILS} "
                "(by blocks) is expected"
            )
        scales = file.numbers(scales_at, FLOAT32) if scales_at else ()
        zero_points = file.numbers(zero_points_at, INT64) if zero_points_at else ()
        if not scales and any(zero_points):
            raise BadData(
                f"{self} has the zero point {next(filter(None, zero_points))} and no scale; both or neither are "
                "expected (the file is damaged, or its converter has lost the scales)"
            )
        if not scales:
            return None
        if len(scales) != len(zero_points):
            raise BadData(
                f"{self} has {len(scales)} scales and {len(zero_points)} zero points; equal numbers are expected"
            )
        if len(scales) > 1 and not (
            0 <= dimension < len(self.shape) and self.shape[dimension] == len(scales)
        ):
            raise BadData(
                f"{self} has {len(scales)} scales along dimension {dimension} of shape {list(self.shape)}; "
                "as many as the dimension's length are expected"
            )
        return Quantization(scales=scales, zero_points=zero_points, dimension=dimension)

    def blocks(self) -> BlockQuantization | None:
        """Returns the tensor's blockwise quantisation, None if it has none.

        Raises:
            BadData: its description is missing, or the blocks have no length.
        """
        if self._quantization is None:
            return None
        file, _, _, kind, details_at, _ = self._quantization
        if kind != _BLOCKWISE_DETAILS:
            return None
        details = Table(file, details_at) if details_at else None
        if details is None or details.integer(2, INT32) < 1:
            raise BadData(f"{self} is quantised by blocks, but the file does not give their length")
        scales = details.integer(0, INT32) if self.block_scales is None else self.block_scales
        return BlockQuantization(scales=scales, length=details.integer(2, INT32))

    def __str__(self) -> str:
        return f"tensor {self.index} {shown(self.name)}"


class Operator(Struct, frozen=True, kw_only=True):
    """An operator of a subgraph.

    Attributes:
        code: a number of `BuiltinOperator`.
        custom_code: the name of a custom operator.
        inputs: tensor indexes; OMITTED for an omitted input.
        outputs: tensor indexes.
        options_type: a number of `BuiltinOptions`, 0 for none.
        options2_type: a number of `BuiltinOptions2`, which holds the options of newer operators.
        custom_options: the options of a custom operator.
        intermediates: tensors with the quantisation of the operator's internal values.
        scope: prefix for messages about operators outside of the loaded subgraph.
    """

    index: int
    code: int
    custom_code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options_type: int
    options: Table | None
    options2_type: int = 0
    options2: Table | None = None
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()
    scope: str = ""

    @property
    def name(self) -> str:
        """The schema's name of the operator; for a custom operator including its own name."""
        name = OPERATOR_NAMES.get(self.code, f"builtin code {self.code}")
        return f"{name} {shown(self.custom_code)}" if self.code == BuiltinOperator.CUSTOM else name

    def __str__(self) -> str:
        return f"{self.scope}operator {self.index} {self.name}"


class TfliteSubgraph(Struct, frozen=True, kw_only=True):
    """Tensors and operators in execution order; `inputs` and `outputs` are tensor indexes.

    Attributes:
        index: index of the subgraph.
        aliases: tensors that are not written because they are other names of existing tensors.
        origins: tensors of subgraphs that were inserted, as (subgraph, tensor) → tensor here.
    """

    index: int
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    aliases: Mapping[int, int] = field(default_factory=dict)
    origins: Mapping[tuple[int, int], int] = field(default_factory=dict)


class TfliteSignature(Struct, frozen=True, kw_only=True):
    """A named entry point: name → tensor index, ordered by name."""

    subgraph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


_TENSOR_FIELDS = (
    FieldFormat(number=0),  # shape
    FieldFormat(number=1, kind=INT8),  # type
    FieldFormat(number=2, kind=UINT32),  # buffer
    FieldFormat(number=3),  # name
    FieldFormat(number=4),  # quantization
    FieldFormat(number=5, kind=BOOL),  # is_variable
    FieldFormat(number=6),  # sparsity
    FieldFormat(number=7),  # shape_signature
    FieldFormat(number=8, kind=BOOL),  # has_rank
)
_QUANTIZATION_FIELDS = (
    FieldFormat(number=2),  # scale
    FieldFormat(number=3),  # zero_point
    FieldFormat(number=4, kind=UINT8),  # details_type
    FieldFormat(number=5),  # details
    FieldFormat(number=6, kind=INT32),  # quantized_dimension
)
_BUFFER_FIELDS = (
    FieldFormat(number=0),  # data
    FieldFormat(number=1, kind=UINT64),  # offset
    FieldFormat(number=2, kind=UINT64),  # size
)
_OPERATOR_FIELDS = (
    FieldFormat(number=0, kind=UINT32),  # opcode_index
    FieldFormat(number=1),  # inputs
    FieldFormat(number=2),  # outputs
    FieldFormat(number=3, kind=UINT8),  # builtin_options_type
    FieldFormat(number=4),  # builtin_options
    FieldFormat(number=5),  # custom_options
    FieldFormat(number=8),  # intermediates
    FieldFormat(number=9, kind=UINT64),  # large_custom_options_offset
    FieldFormat(number=10, kind=UINT64),  # large_custom_options_size
    FieldFormat(number=11, kind=UINT8),  # builtin_options_2_type
    FieldFormat(number=12),  # builtin_options_2
)


class TfliteFile:
    """An open `.tflite` file; subgraphs are read on demand.

    Args:
        data: all bytes of the file.

    Raises:
        BadData: the file is damaged, or not a TFLite model of schema version 3. Methods raise it,
            too.
    """

    def __init__(self, data: memoryview) -> None:
        if data[4:8] == _PLAN_FILE_IDENTIFIER:
            raise BadData(
                "it is a plan file, which `neurald run` and neurald.load_plan load; a .tflite model is expected"
            )
        file = Flatbuffer(data, _IDENTIFIER)
        root = file.root
        version = root.integer(0, UINT32)
        if version != _VERSION:
            raise BadData(f"the file has schema version {version}; {_VERSION} is expected")
        self._file = file
        self._size = file.size
        self._tensor_reader = TableReader(file, _TENSOR_FIELDS)
        self._buffer_reader = TableReader(file, _BUFFER_FIELDS)
        self._quantization_reader = TableReader(file, _QUANTIZATION_FIELDS)
        self._operator_reader = TableReader(file, _OPERATOR_FIELDS)
        self._codes = tuple(_code(table) for table in root.tables(1))
        self._subgraphs = root.tables(2)
        self._buffers = root.tables(4)
        if not len(self._subgraphs):
            raise BadData("the file has no subgraph")
        self.signatures: dict[str, TfliteSignature] = {}
        for table in root.tables(7):
            key = table.string(2)
            if key is None or key in self.signatures:
                raise BadData(
                    "a signature has no name" if key is None else f"two signatures are named {shown(key)}"
                )
            self.signatures[key] = self._signature(table, f"signature {shown(key)}")

    @property
    def subgraph_count(self) -> int:
        """The number of subgraphs."""
        return len(self._subgraphs)

    def subgraph(self, index: int, scope: str = "") -> TfliteSubgraph:
        """Reads the subgraph at `index`; `scope` is a prefix for messages about its operators."""
        _check_index(index, len(self._subgraphs), "an operator or a signature", "subgraph")
        table = self._subgraphs[index]
        found = table.tables(0)
        tensors = tuple([self._tensor(number, position) for number, position in enumerate(found.positions())])
        inputs, outputs = table.integers(1), table.integers(2)
        for indexes, what in ((inputs, "input"), (outputs, "output")):
            for position, tensor in enumerate(indexes):
                _check_index(tensor, len(tensors), f"{what} {position}", "tensor")
        operators = table.tables(3)
        return TfliteSubgraph(
            index=index,
            tensors=tensors,
            operators=tuple(
                [
                    self._operator(number, position, len(tensors), scope)
                    for number, position in enumerate(operators.positions())
                ]
            ),
            inputs=inputs,
            outputs=outputs,
        )

    def _signature(self, table: Table, what: str) -> TfliteSignature:
        subgraph = table.integer(4, UINT32)
        _check_index(subgraph, len(self._subgraphs), what, "subgraph")
        return TfliteSignature(
            subgraph=subgraph,
            inputs=_tensor_map(table, 0, f"an input of {what}"),
            outputs=_tensor_map(table, 1, f"an output of {what}"),
        )

    def _tensor(self, index: int, position: int) -> Tensor:
        file = self._file
        (
            shape_at,
            kind,
            buffer,
            name_at,
            quantization_at,
            is_variable,
            sparsity_at,
            signature_at,
            has_rank,
        ) = self._tensor_reader.read(position)
        name = file.text(name_at) if name_at else ""
        shape = file.numbers(shape_at, INT32) if shape_at else ()
        signature = file.numbers(signature_at, INT32) if signature_at else ()
        if shape and min(shape) < 0:
            raise BadData(
                f"tensor {index} {shown(name)} has shape {_format_lengths(shape)}; no length may be negative"
            )
        if signature and (len(signature) != len(shape) or min(signature) < -1):
            raise BadData(
                f"tensor {index} {shown(name)} has shape signature {_format_lengths(signature)}, which does not go "
                f"with shape {_format_lengths(shape)}"
            )
        return Tensor(
            index=index,
            name=name,
            type=kind,
            shape=shape,
            shape_signature=signature,
            has_rank=bool(has_rank),
            data=self._buffer(buffer, index, name) if buffer else None,
            is_variable=bool(is_variable),
            sparsity=Table(file, sparsity_at) if sparsity_at else None,
            _quantization=(
                (file, *self._quantization_reader.read(quantization_at)) if quantization_at else None
            ),
        )

    def _buffer(self, buffer: int, index: int, name: str) -> tuple[int, int] | None:
        """Returns the position of the bytes of a tensor's buffer; None if it is empty.

        Buffer 0 means that there is no value, without being read.
        """
        if not 0 <= buffer < len(self._buffers):
            what = f"tensor {index} {shown(name)}"
            _check_index(buffer, len(self._buffers), what, "buffer")
        data_at, offset, length = self._buffer_reader.read(self._buffers.position(buffer))
        if data_at:
            data = self._file.vector(data_at, 1)
        else:
            # Files beyond 2 GB store values after the flatbuffer; offsets 0 and 1 mean that this
            # one does not.
            if offset <= 1:
                return None
            if offset + length > self._size:
                raise BadData(
                    f"tensor {index} {shown(name)}: its {length} bytes at offset {offset} do not lie inside "
                    f"the file's {self._size} bytes"
                )
            data = offset, length
        return data if data[1] else None

    def _operator(self, index: int, position: int, tensors: int, scope: str) -> Operator:
        file = self._file
        (
            opcode,
            inputs_at,
            outputs_at,
            options_type,
            options_at,
            custom_at,
            intermediates_at,
            custom_offset,
            custom_length,
            options2_type,
            options2_at,
        ) = self._operator_reader.read(position)
        if opcode >= len(self._codes):
            _check_index(opcode, len(self._codes), f"operator {index}", "operator code")
        code, custom_code = self._codes[opcode]
        inputs = file.numbers(inputs_at, INT32) if inputs_at else ()
        outputs = file.numbers(outputs_at, INT32) if outputs_at else ()
        intermediates = file.numbers(intermediates_at, INT32) if intermediates_at else ()
        for tensor in inputs:
            if not OMITTED <= tensor < tensors:
                _check_index(tensor, tensors, f"{scope}operator {index} (input)", "tensor")
        for tensor in outputs + intermediates:
            if not 0 <= tensor < tensors:
                _check_index(tensor, tensors, f"{scope}operator {index} (output)", "tensor")
        return Operator(
            index=index,
            code=code,
            custom_code=custom_code,
            inputs=inputs,
            outputs=outputs,
            options_type=options_type,
            options=Table(file, options_at) if options_at else None,
            options2_type=options2_type,
            options2=Table(file, options2_at) if options2_at else None,
            custom_options=(
                self._custom_options(custom_at, custom_offset, custom_length, f"{scope}operator {index}")
                if custom_at or custom_offset > 1
                else b""
            ),
            intermediates=intermediates,
            scope=scope,
        )

    def _custom_options(self, position: int, start: int, length: int, what: str) -> bytes:
        """Returns the options at a position, or, as for buffers, after the flatbuffer."""
        if position:
            start, length = self._file.vector(position, 1)
        elif start + length > self._size:
            raise BadData(
                f"{what}: {length} bytes of options at offset {start} do not lie inside the file's "
                f"{self._size} bytes"
            )
        self._file.spend_bytes(length)
        return bytes(self._file.data[start : start + length])


def _code(table: Table) -> tuple[int, str]:
    """Returns builtin code and custom name.

    Old files use an 8-bit field for the code, new ones another or both.
    """
    return max(table.integer(0, INT8), table.integer(3, INT32)), table.string(1) or ""


def _tensor_map(table: Table, field: int, what: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for entry in table.tables(field):
        name = entry.string(0)
        if name is None or name in found:
            raise BadData(
                f"{what} has no name" if name is None else f"{what} has the name {shown(name)} of another"
            )
        found[name] = entry.integer(1, UINT32)
    return dict(sorted(found.items()))


def _check_index(index: int, count: int, what: str, kind: str) -> None:
    if not 0 <= index < count:
        raise BadData(f"{what} refers to {kind} {index}; there are {count}")


def _format_lengths(lengths: tuple[Any, ...]) -> str:
    """Formats the first few of many numbers."""
    return str(list(lengths)) if len(lengths) <= 16 else f"[{', '.join(map(str, lengths[:16]))}, ...]"
