"""Describes a `.tflite` file by its operators and tensors, whether neurald can load it or not."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from neurald.runtime.tflite.file.schema import OMITTED, Operator, Tensor, TfliteFile, TfliteSubgraph

#: NumPy's names of tensor types whose values can be made up.
_DTYPES = {
    "FLOAT32": "float32",
    "FLOAT64": "float64",
    "FLOAT16": "float16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT16": "int16",
    "UINT16": "uint16",
    "INT32": "int32",
    "UINT32": "uint32",
    "INT64": "int64",
    "UINT64": "uint64",
    "BOOL": "bool",
    "COMPLEX64": "complex64",
    "STRING": "S8",
}
#: Operators with weights, and the position of these among the inputs.
_WEIGHTS = {
    "CONV_2D": 1,
    "DEPTHWISE_CONV_2D": 1,
    "CONV_3D": 1,
    "FULLY_CONNECTED": 1,
    "BATCH_MATMUL": 1,
    "TRANSPOSE_CONV": 1,
    "CONV_3D_TRANSPOSE": 1,
}
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
_SEQUENCES = (
    "LSTM",
    "RNN",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "UNIDIRECTIONAL_SEQUENCE_RNN",
    "BIDIRECTIONAL_SEQUENCE_LSTM",
    "BIDIRECTIONAL_SEQUENCE_RNN",
    "SVDF",
)
_INTEGERS = ("INT8", "UINT8", "INT16", "INT4")


@dataclass(frozen=True, kw_only=True, slots=True)
class Port:
    """Input or output of a model.

    Attributes:
        shape: the declared one, in which open dimensions are 0.
        dtype: NumPy's name of the type.
        is_quantized: whether it has a scale.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_quantized: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFile:
    """The contents of a `.tflite` file.

    Attributes:
        precision: fp32, int8, uint8, int16x8, hybrid, or integer for models without real numbers.
        kind: the kind of model, such as cnn or transformer, guessed from its operators.
    """

    precision: str
    kind: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @property
    def family(self) -> str:
        """The name of the group of models."""
        return f"{self.kind} {self.precision}"


def read_model_file(path: Path) -> ModelFile:
    """Reads the description of a file.

    Raises:
        neurald.Error: the file is damaged.
        OSError: it cannot be read.
    """
    file = TfliteFile(memoryview(path.read_bytes()))
    graphs = [file.subgraph(index) for index in range(file.subgraph_count)]
    main = graphs[0]
    return ModelFile(
        precision=_precision(graphs),
        kind=_kind(Counter(operator.name for graph in graphs for operator in graph.operators)),
        inputs=tuple(_port(main.tensors[index]) for index in main.inputs),
        outputs=tuple(_port(main.tensors[index]) for index in main.outputs),
    )


def _port(tensor: Tensor) -> Port:
    lengths = tensor.shape_signature or tensor.shape
    return Port(
        name=tensor.name,
        shape=tuple(max(0, length) for length in lengths),
        dtype=_DTYPES.get(tensor.type_name, ""),
        is_quantized=tensor.quantization() is not None,
    )


def _precision(graphs: list[TfliteSubgraph]) -> str:
    """Returns the commonest precision of operators with weights, or else that of all tensors."""
    found = Counter(precision for graph in graphs for precision in _precisions(graph))
    if found:
        return found.most_common(1)[0][0]
    types = Counter(tensor.type_name for graph in graphs for tensor in graph.tensors)
    quantized = Counter(
        tensor.type_name for tensor in graphs[0].tensors if tensor.quantization() and tensor.data is None
    )
    if quantized and not types["FLOAT32"]:
        return quantized.most_common(1)[0][0].lower()
    return (
        "fp32" if any(types[name] for name in ("FLOAT32", "FLOAT16", "FLOAT64", "COMPLEX64")) else "integer"
    )


def _precisions(graph: TfliteSubgraph) -> Iterator[str]:
    for operator in graph.operators:
        if (weights := _weights(graph, operator)) is None:
            continue
        activation = graph.tensors[operator.outputs[0]].type_name
        if activation == "INT16":
            yield "int16x8"
        elif activation in ("INT8", "UINT8"):
            yield activation.lower()
        else:
            yield "hybrid" if weights.type_name in _INTEGERS and weights.data is not None else "fp32"


def _weights(graph: TfliteSubgraph, operator: Operator) -> Tensor | None:
    place = _WEIGHTS.get(operator.name)
    if place is None or place >= len(operator.inputs) or operator.inputs[place] == OMITTED:
        return None
    return graph.tensors[operator.inputs[place]]


def _kind(counts: Counter[str]) -> str:
    has_matrices = any(counts[name] for name in _WEIGHTS)
    gates = counts["TANH"] + counts["LOGISTIC"]
    if any(counts[name] for name in _SEQUENCES) or (counts["WHILE"] and has_matrices):
        return "recurrent"
    if counts["WHILE"] or counts["IF"]:
        return "control flow"
    if counts["CONV_3D"] or counts["CONV_3D_TRANSPOSE"]:
        return "3-D convolution"
    if counts["BATCH_MATMUL"] >= 2 and counts["SOFTMAX"]:
        return "transformer"
    if any(counts[name] for name in _CONVOLUTIONS):
        return "cnn"
    if counts["TANH"] >= 4 and gates > counts["FULLY_CONNECTED"] + counts["BATCH_MATMUL"]:
        # A cell of a recurrent network in which all turns are written out.
        return "recurrent"
    return "dense" if has_matrices else "operators"
