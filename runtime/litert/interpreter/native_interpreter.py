"""LiteRT's private wrapper of its native interpreter, which other packages use all the same."""

import weakref
from collections.abc import Mapping
from typing import Any, Final, Protocol

import numpy as np

from neurald.runtime.litert.arguments import integer, text
from neurald.runtime.litert.subgraphs.model_source import ModelSource
from neurald.runtime.litert.subgraphs.runner_table import RunnerTable
from neurald.runtime.litert.subgraphs.subgraph_runner import SubgraphRunner
from neurald.runtime.litert.subgraphs.tensor_details import Details
from neurald.runtime.tflite.file.schema import TfliteSignature


class DescribesOperators(Protocol):
    """The method of an interpreter that describes operators of its first subgraph."""

    def __call__(self, op_index: int) -> Details:
        """Returns the description of an operator.

        Raises:
            ValueError: there is no such operator.
        """


class NativeInterpreter:
    """The methods of `interpreter._interpreter`, by LiteRT's names.

    Args:
        source: the file.
        runners: its subgraphs.
        operator_details: describes operators.
    """

    def __init__(
        self, source: ModelSource, runners: RunnerTable, operator_details: DescribesOperators
    ) -> None:
        self._source = source
        self._runners = runners
        self._operator_details = operator_details
        _LIVING[id(self)] = self

    def runner(self, subgraph: int) -> SubgraphRunner:
        """Returns what runs a subgraph.

        Raises:
            ValueError: there is no such subgraph.
        """
        if not 0 <= subgraph < len(self._source.subgraphs):
            raise ValueError(
                f"Invalid subgraph index {subgraph} exceeds max subgraph index {len(self._source.subgraphs)}"
            )
        return self._runners.runner(subgraph)

    def keeping_all(self) -> RunnerTable:
        """Returns the same subgraphs once more, with the results of all operators."""
        return self._runners.keeping_all()

    # LiteRT's names, which are not Python's.

    def AllocateTensors(self, subgraph_index: int = -1) -> None:  # noqa: D102, N802
        self.runner(max(subgraph_index, 0)).allocate()

    def Invoke(self, subgraph_index: int = 0) -> None:  # noqa: D102, N802
        self.runner(subgraph_index).invoke()

    def InputIndices(self) -> Any:  # noqa: D102, N802
        return np.array(self.runner(0).inputs, np.int32)

    def OutputIndices(self) -> Any:  # noqa: D102, N802
        return np.array(self.runner(0).outputs, np.int32)

    def ResizeInputTensor(  # noqa: D102, N802
        self, i: int, value: Any, strict: bool, subgraph_index: int = 0
    ) -> None:
        shape = np.asarray(value)
        if shape.ndim != 1 or shape.dtype != np.int32:
            raise ValueError(f"Shape should be 1D INT32 instead of {shape.ndim}D {shape.dtype}.")
        self.runner(subgraph_index).resize(i, shape.tolist(), is_strict=strict)

    def NumSubgraphs(self) -> int:  # noqa: D102, N802
        return len(self._source.subgraphs)

    def NumTensors(self, subgraph_index: int) -> int:  # noqa: D102, N802
        return self.runner(subgraph_index).tensor_count

    def TensorName(self, tensor_index: int, subgraph_index: int = 0) -> str:  # noqa: D102, N802
        return str(self._detail(tensor_index, subgraph_index, "name"))

    def TensorType(self, tensor_index: int, subgraph_index: int = 0) -> Any:  # noqa: D102, N802
        return self._detail(tensor_index, subgraph_index, "dtype")

    def TensorSize(self, tensor_index: int, subgraph_index: int = 0) -> Any:  # noqa: D102, N802
        return self._detail(tensor_index, subgraph_index, "shape")

    def TensorSizeSignature(self, tensor_index: int, subgraph_index: int = 0) -> Any:  # noqa: D102, N802
        return self._detail(tensor_index, subgraph_index, "shape_signature")

    def TensorSparsityParameters(self, tensor_index: int, subgraph_index: int = 0) -> Any:  # noqa: D102, N802
        return self._detail(tensor_index, subgraph_index, "sparsity_parameters")

    def TensorQuantization(self, tensor_index: int, subgraph_index: int = 0) -> Any:  # noqa: D102, N802
        return self._detail(tensor_index, subgraph_index, "quantization")

    def TensorQuantizationParameters(self, tensor_index: int, subgraph_index: int = 0) -> Any:  # noqa: D102, N802
        found = self._detail(tensor_index, subgraph_index, "quantization_parameters")
        return tuple(found[key] for key in ("scales", "zero_points", "quantized_dimension", "block_size"))

    def _detail(self, tensor_index: int, subgraph_index: int, key: str) -> Any:
        tensor, subgraph = (integer(each, "TensorDetails") for each in (tensor_index, subgraph_index))
        return self.runner(subgraph).details(tensor)[key]

    def SetTensor(self, i: int, value: Any, subgraph_index: int = 0) -> None:  # noqa: D102, N802
        self.runner(subgraph_index).set(i, value)

    def GetTensor(  # noqa: D102, N802
        self, tensor_index: int, subgraph_index: int = 0
    ) -> np.ndarray[Any, Any]:
        tensor, subgraph = (integer(each, "GetTensor") for each in (tensor_index, subgraph_index))
        self.runner(subgraph)
        return self._runners.value(subgraph, tensor)

    def tensor(self, base_object: object, tensor_index: int, subgraph_index: int = 0) -> Any:  # noqa: D102
        del base_object
        tensor, subgraph = (integer(each, "tensor") for each in (tensor_index, subgraph_index))
        self.runner(subgraph)
        return self._runners.view(subgraph, tensor)

    def GetSubgraphIndexFromSignature(self, signature_key: str) -> int:  # noqa: D102, N802
        signature = self._source.signatures.get(text(signature_key, "GetSubgraphIndexFromSignature"))
        if signature is None:
            known = ", ".join(map(repr, self._source.signatures)) or "none"
            raise ValueError(f"No matching signature. There is no {signature_key!r}; there are: {known}")
        return signature.subgraph

    def GetSignatureDefs(self) -> dict[str, dict[str, dict[str, int]]]:  # noqa: D102, N802
        return signature_tables(self._source.signatures)

    def ResetVariableTensors(self) -> None:  # noqa: D102, N802
        self._runners.reset_variables()

    def NumNodes(self) -> int:  # noqa: D102, N802
        return len(self._source.subgraphs[0].operators)

    def NodeName(self, i: int) -> str:  # noqa: D102, N802
        return str(self._operator_details(i)["op_name"])

    def NodeInputs(self, i: int) -> Any:  # noqa: D102, N802
        return self._operator_details(i)["inputs"]

    def NodeOutputs(self, i: int) -> Any:  # noqa: D102, N802
        return self._operator_details(i)["outputs"]

    def SetNumThreads(self, i: int) -> None:  # noqa: D102, N802
        self._runners.set_threads(integer(i, "SetNumThreads"))

    def ModifyGraphWithDelegate(self, delegate: int) -> None:  # noqa: D102, N802
        raise ValueError(
            f"neurald runs no delegates of LiteRT; {delegate:#x} is the address of one, which is not followed"
        )

    def interpreter(self) -> int:
        """Returns a number that stands for the interpreter, as LiteRT's address of it does."""
        return id(self)


#: The living wrappers by what `_native_handle` returns. A number that no wrapper has given is none.
_LIVING: Final[weakref.WeakValueDictionary[int, NativeInterpreter]] = weakref.WeakValueDictionary()


def signature_tables(signatures: Mapping[str, TfliteSignature]) -> dict[str, dict[str, dict[str, int]]]:
    """Returns the tensors of all signatures by name."""
    return {
        key: {"inputs": dict(each.inputs), "outputs": dict(each.outputs)} for key, each in signatures.items()
    }


def living(handle: int) -> NativeInterpreter:
    """Returns the wrapper that a handle stands for.

    Raises:
        ValueError: no living interpreter has it.
    """
    found = _LIVING.get(handle)
    if found is None:
        raise ValueError(f"{handle} is not the handle of an interpreter of neurald.litert")
    return found
