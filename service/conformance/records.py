"""Runs Android's conformance records: models with inputs and expected outputs.

The user provides a folder of record files. Their format is `nnapi-vectors/1` as gzipped JSON.
"""

import base64
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import neurald as nd
from neurald.hal.errors import BadData
from neurald.hal.operations.machinery.call import Array
from neurald.service.conformance.result import CheckResult, Outcome

_FORMAT = "nnapi-vectors/1"
_SUFFIX = ".json.gz"
#: Loop timeout for records with endless loops.
_LOOP_TIMEOUT_S = 0.05
_TYPES = {kind.name: kind for kind in nd.OperandType} | {"SUBGRAPH": nd.OperandType.MODEL}


@dataclass(slots=True, kw_only=True)
class RecordOperand:
    """An operand. `data` is the value of a constant, or the index of a referenced graph."""

    type: str
    dims: tuple[int, ...]
    scale: float
    zero_point: int
    channel_quant: Mapping[str, Any] | None
    lifetime: str
    data: Any

    @property
    def is_tensor(self) -> bool:
        """True for tensors."""
        return self.type.startswith("TENSOR_")


@dataclass(slots=True, kw_only=True)
class RecordOperation:
    """An operation, with the name of its type."""

    type: str
    inputs: list[int]
    outputs: list[int]


@dataclass(slots=True, kw_only=True)
class RecordGraph:
    """A graph. Inputs and outputs are indices of operands."""

    operands: list[RecordOperand]
    operations: list[RecordOperation]
    inputs: list[int]
    outputs: list[int]


@dataclass(slots=True, kw_only=True)
class RecordOutput:
    """An expected output. `data` is None if it is not compared."""

    type: str
    dims: tuple[int, ...]
    ignored: bool
    data: Array | None
    atol: float
    rtol: float


@dataclass(slots=True, kw_only=True)
class Record:
    """A model with its inputs and expected outputs. An omitted input is None."""

    name: str
    op: str
    tags: list[str]
    relaxed: bool
    expect_failure: bool
    multinomial_tolerance: float | None
    main: RecordGraph
    referenced: list[RecordGraph]
    inputs: list[Array | None]
    outputs: list[RecordOutput]

    @property
    def op_types(self) -> set[str]:
        """The names of the types of all operations."""
        graphs = (self.main, *self.referenced)
        return {operation.type for graph in graphs for operation in graph.operations}


def record_files(folder: Path) -> list[Path]:
    """Returns the record files in the subfolders of a folder, sorted by path."""
    return sorted(folder.glob(f"*/*{_SUFFIX}"))


def load_records(path: Path) -> list[Record]:
    """Loads the records of one file.

    Raises:
        BadData: the file does not contain conformance records.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            document = json.load(file)
        if document["format"] != _FORMAT:
            raise BadData(f"{path}: format {document['format']!r}; expected {_FORMAT}")
        buffers = [base64.b64decode(buffer) for buffer in document["buffers"]]
        return [_record(each, buffers) for each in document["records"]]
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, IndexError) as error:
        raise BadData(f"{path} contains no conformance records: {type(error).__name__}: {error}") from None


def _record(source: Mapping[str, Any], buffers: Sequence[bytes]) -> Record:
    main, example = _graph(source["model"], buffers), source["example"]
    inputs = []
    for index, item in zip(main.inputs, example["inputs"], strict=True):
        operand = main.operands[index]
        inputs.append(None if item["omitted"] else _array(buffers[item["data"]], operand.type, operand.dims))
    outputs = []
    for index, item in zip(main.outputs, example["outputs"], strict=True):
        kind, data = main.operands[index].type, item["data"]
        outputs.append(
            RecordOutput(
                type=kind,
                dims=tuple(item["dims"]),
                ignored=item["ignored"],
                data=None if data is None else _array(buffers[data], kind, item["dims"]),
                atol=item["atol"] or 0.0,
                rtol=item["rtol"] or 0.0,
            )
        )
    return Record(
        name=source["name"],
        op=source["op"],
        tags=source["tags"],
        relaxed=source["relaxed"],
        expect_failure=source["expect_failure"],
        multinomial_tolerance=source["multinomial_tolerance"],
        main=main,
        referenced=[_graph(graph, buffers) for graph in source["referenced"]],
        inputs=inputs,
        outputs=outputs,
    )


def _graph(source: Mapping[str, Any], buffers: Sequence[bytes]) -> RecordGraph:
    operands = [
        RecordOperand(
            type=each["type"],
            dims=tuple(each["dims"]),
            scale=float(each["scale"]),
            zero_point=each["zero_point"],
            channel_quant=each["channel_quant"],
            lifetime=each["lifetime"],
            data=None if each["data"] is None else _array(buffers[each["data"]], each["type"], each["dims"]),
        )
        for each in source["operands"]
    ]
    operations = [
        RecordOperation(type=each["type"], inputs=each["inputs"], outputs=each["outputs"])
        for each in source["operations"]
    ]
    return RecordGraph(
        operands=operands, operations=operations, inputs=source["inputs"], outputs=source["outputs"]
    )


def _array(raw: bytes, type_name: str, dimensions: Sequence[int]) -> Array:
    kind = _TYPES[type_name]
    if kind is nd.OperandType.MODEL:
        return np.frombuffer(raw, "<u4").reshape(tuple(dimensions))
    if kind.dtype.kind == "b":
        return np.asarray(np.frombuffer(raw, np.uint8) != 0).reshape(tuple(dimensions))
    return np.frombuffer(raw, kind.dtype).reshape(tuple(dimensions))


def build(record: Record, graph: RecordGraph) -> nd.Model:
    """Builds the model of a record's graph with ModelBuilder."""
    builder = nd.ModelBuilder()
    for operand in graph.operands:
        quant = operand.channel_quant
        index = builder.add_operand(
            _TYPES[operand.type],
            operand.dims,
            scale=operand.scale,
            zero_point=operand.zero_point,
            channel_quant=None if quant is None else (quant["dim"], quant["scales"]),
        )
        if operand.lifetime == "SUBGRAPH":
            referenced = record.referenced[int(operand.data)]
            builder.set_operand_value_from_model(index, build(record, referenced))
        elif operand.lifetime == "NO_VALUE":
            builder.set_operand_value(index, None)
        elif operand.lifetime.startswith("CONSTANT"):
            builder.set_operand_value(index, operand.data)
    for operation in graph.operations:
        builder.add_operation(nd.OperationType[operation.type], operation.inputs, operation.outputs)
    builder.identify_inputs_and_outputs(graph.inputs, graph.outputs)
    builder.relax_computation_float32_to_float16(record.relaxed)
    return builder.finish()


#: Compiles a model.
Compile = Callable[[nd.Model], nd.Compilation]


def compile_for(device: nd.Device) -> Compile:
    """Returns a function that compiles models for one device, without the cache."""

    def compile_model(model: nd.Model) -> nd.Compilation:
        builder = nd.CompilationBuilder(model, [device])
        builder.set_caching(None)
        return builder.finish()

    return compile_model


def run(record: Record, compile_model: Compile) -> list[Array]:
    """Builds, compiles and executes a record, and returns the outputs.

    Raises:
        Error: one of these steps failed.
    """
    model = build(record, record.main)
    execution = nd.Execution(compile_model(model))
    if "loop_timeout" in record.tags:
        execution.set_loop_timeout(_LOOP_TIMEOUT_S)
    for position, array in enumerate(record.inputs):
        execution.set_input(position, None if array is None else np.array(array))
    outputs = []
    for position, (index, expected) in enumerate(zip(model.main.outputs, record.outputs, strict=True)):
        operand = model.main.operands[index]
        outputs.append(np.zeros(expected.dims, operand.type.dtype))
        execution.set_output(position, outputs[-1])
    execution.compute()
    return [
        output.reshape(-1)[: int(np.prod(shape))].reshape(shape)
        for output, shape in zip(outputs, execution.output_shapes(), strict=True)
    ]


def mismatches(record: Record, results: Sequence[Array]) -> list[str]:
    """Returns descriptions of what is wrong with the outputs of a record, one per output."""
    if record.multinomial_tolerance:
        return _frequencies(record, results[0], record.multinomial_tolerance)
    lines = []
    for position, (expected, found) in enumerate(zip(record.outputs, results, strict=True)):
        if expected.ignored or expected.data is None:
            continue
        if found.shape != expected.dims:
            lines.append(f"output {position}: shape {list(found.shape)}; expected {list(expected.dims)}")
            continue
        got, want = found.astype(np.float64), expected.data.astype(np.float64)
        with np.errstate(invalid="ignore"):
            is_right = np.abs(got - want) <= expected.atol + expected.rtol * np.abs(want)
        wrong = np.flatnonzero(~np.ravel(is_right))
        if wrong.size:
            first = int(wrong[0])
            lines.append(
                f"output {position} ({expected.type}): {wrong.size} of {want.size} elements differ, "
                f"the first at {first}: {got.flat[first]!s}; expected {want.flat[first]!s}"
            )
    return lines


def _frequencies(record: Record, samples: Array, tolerance: float) -> list[str]:
    """Compares the frequencies of random classes with the probabilities that the logits give."""
    logits = record.inputs[0]
    if logits is None or samples.shape != record.outputs[0].dims:
        return [f"output 0: shape {list(samples.shape)}; expected {list(record.outputs[0].dims)}"]
    for batch, row in enumerate(logits.astype(np.float64)):
        drawn = samples[batch].astype(np.int64)
        if drawn.min() < 0 or drawn.max() >= row.size:
            return [
                f"output 0: batch {batch}: classes from {drawn.min()} to {drawn.max()}; "
                f"expected 0 to {row.size - 1}"
            ]
        wanted = np.exp(row) / np.exp(row).sum()
        worst = float(np.abs(np.bincount(drawn, minlength=row.size) / drawn.size - wanted).max())
        if worst > tolerance:
            return [
                f"output 0: batch {batch}: the frequency of a class differs by {worst:g}; "
                f"at most {tolerance:g} is allowed"
            ]
    return []


def failures(records: Iterable[Record], compile_model: Compile) -> list[str]:
    """Runs records and returns descriptions of everything that is wrong, one per line."""
    lines = []
    for record in records:
        try:
            results = run(record, compile_model)
        except nd.Error as error:
            if not record.expect_failure:
                lines.append(f"{record.name}: {error.code.name}: {error}")
            continue
        if record.expect_failure:
            lines.append(f"{record.name}: it succeeded; expected a failure")
        else:
            lines += [f"{record.name}: {line}" for line in mismatches(record, results)]
    return lines


def require_records(folder: Path) -> list[Path]:
    """Returns the files with records in a folder.

    Raises:
        BadData: the folder contains none.
    """
    files = record_files(folder)
    if not files:
        raise BadData(f"{folder} contains no conformance records; expected files {folder}/*/*{_SUFFIX}")
    return files


def check_records(
    device: nd.Device,
    folder: Path,
    operations: Sequence[nd.OperationType],
    report_progress: Callable[[float], None],
) -> Iterator[CheckResult]:
    """Runs the records in a folder that the device supports.

    Args:
        device: the device to check.
        folder: the folder with the records.
        operations: runs only records with one of these operations; an empty sequence runs all.
        report_progress: the function that is called with the completed fraction of the work, from
            0 to 1.

    Raises:
        BadData: the folder contains no records.
    """
    files = require_records(folder)
    wanted = {operation.name for operation in operations}
    for position, path in enumerate(files):
        report_progress(position / len(files))
        for record in load_records(path):
            if not wanted or record.op_types & wanted:
                yield _check(device, record)


def _check(device: nd.Device, record: Record) -> CheckResult:
    reason = "" if record.expect_failure else _refusal(device, record)
    if reason:
        return CheckResult(group="records", subject=record.name, outcome=Outcome.DECLINED, detail=reason)
    lines = failures((record,), compile_for(device))
    outcome = Outcome.FAILED if lines else Outcome.PASSED
    return CheckResult(group="records", subject=record.name, outcome=outcome, detail="; ".join(lines))


def _refusal(device: nd.Device, record: Record) -> str:
    """Returns the reason why the device does not support a record, or ""."""
    missing = sorted(name for name in record.op_types if name not in nd.OperationType.__members__)
    if missing:
        return f"neurald does not know {', '.join(missing)}"
    (answers,) = nd.supported_operations(build(record, record.main), [device]).values()
    return next((verdict.reason for verdict in answers if not verdict.ok), "")
