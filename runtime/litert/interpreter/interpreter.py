"""LiteRT's Interpreter: allocates, fills and reads the tensors of a `.tflite` file by number."""

import enum
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neurald.hal.device import MAX_THREADS
from neurald.runtime.devices.local import open_device
from neurald.runtime.litert.arguments import flag, integer, text
from neurald.runtime.litert.interpreter import metrics
from neurald.runtime.litert.interpreter.native_interpreter import NativeInterpreter, signature_tables
from neurald.runtime.litert.interpreter.signature_runner import SignatureRunner
from neurald.runtime.litert.subgraphs.element_types import element_type
from neurald.runtime.litert.subgraphs.model_source import Content, ModelSource, required_content
from neurald.runtime.litert.subgraphs.runner_table import RunnerTable
from neurald.runtime.litert.subgraphs.subgraph_runner import SubgraphRunner
from neurald.runtime.litert.subgraphs.tensor_details import Details
from neurald.runtime.tflite.file.schema import (
    OMITTED,
    OPERATOR_NAMES,
    Operator,
    TfliteSignature,
    TfliteSubgraph,
)
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator

if TYPE_CHECKING:
    # Most programs have no custom operators.
    from neurald.hal.device import Device
    from neurald.runtime.litert.registerers import Registerer
    from neurald.runtime.tflite.graph.custom_operators import CustomOperators

_REFERENCES = (
    "There is at least 1 reference to internal data\n      in the interpreter in the form of a numpy array "
    "or slice. Be sure to\n      only hold the function returned from tensor() if you are using raw\n      "
    "data access."
)


@enum.unique
class OpResolverType(enum.Enum):
    """The implementations of the operators that run.

    All but BUILTIN_REF run compiled kernels, BUILTIN_REF runs the reference driver.
    """

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


class Interpreter:
    """Runs a `.tflite` file on the CPU device. Not thread-safe.

    Args:
        model_path: a file.
        model_content: the bytes of a file.
        experimental_delegates: must be empty, see `load_delegate`.
        num_threads: number of CPU threads; None for one.
        experimental_op_resolver_type: see `OpResolverType`.
        experimental_preserve_all_tensors: keeps the results of all operators for `get_tensor`.
        experimental_disable_delegate_clustering: has no effect.
        experimental_default_delegate_latest_features: has no effect.
        experimental_compress_quantization_zero_points: is returned by the property of that name.
        experimental_disable_delegate_node_fusion: has no effect.
        experimental_force_delegate_node_profiling: has no effect.

    Raises:
        ValueError: an argument is wrong, or the file cannot be read.
        TypeError: an argument is of another type.
    """

    #: Functions of custom operators, which `InterpreterWithCustomOps` has.
    _custom_operators: "CustomOperators | None" = None

    def __init__(
        self,
        model_path: str | bytes | os.PathLike[str] | None = None,
        model_content: Content | None = None,
        experimental_delegates: Sequence[Any] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: OpResolverType = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
    ) -> None:
        del experimental_disable_delegate_clustering, experimental_default_delegate_latest_features
        del experimental_disable_delegate_node_fusion, experimental_force_delegate_node_profiling
        if not isinstance(experimental_op_resolver_type, OpResolverType):
            raise ValueError(f"Unrecognized passed in op resolver type: {experimental_op_resolver_type}")
        if num_threads is not None:
            if not isinstance(num_threads, int):
                raise ValueError("type of num_threads should be int")
            if num_threads < 1:
                raise ValueError("num_threads should >= 1")
            integer(num_threads, "CreateWrapper")
        if not model_path and not model_content:
            raise ValueError("`model_path` or `model_content` must be specified.")
        if model_path and model_content:
            raise ValueError("Can't both provide `model_path` and `model_content`")
        if list(experimental_delegates or ()):
            raise ValueError("neurald runs no delegates of LiteRT; see neurald.litert.load_delegate")
        is_reference = experimental_op_resolver_type is OpResolverType.BUILTIN_REF
        if experimental_preserve_all_tensors and experimental_op_resolver_type in (
            OpResolverType.AUTO,
            OpResolverType.BUILTIN,
        ):
            warnings.warn(
                "experimental_preserve_all_tensors keeps the results of all operators: this takes memory, "
                "and keeps operators from being computed together. It is meant for debugging.",
                stacklevel=2,
            )
        self._driver = "reference" if is_reference else "cpu"
        self._compresses = experimental_compress_quantization_zero_points
        # As bytes, a path is a path, too.
        content = required_content(model_content) if model_content else os.fsdecode(model_path or "")
        self._source = ModelSource(content, self._custom_operators)
        self._runners = RunnerTable(
            self._source,
            self._devices,
            min(int(num_threads or 1), MAX_THREADS),  # LiteRT has no limit
            keeps_all=experimental_preserve_all_tensors,
            starts_at_once=not is_reference,
        )
        self._main = self._runners.runner(0)
        self._interpreter = NativeInterpreter(self._source, self._runners, self._get_op_details)
        metrics.TFLiteMetrics().increase_counter_interpreter_creation()

    def _devices(self) -> "list[Device]":
        found = [open_device(self._driver)]
        if self._custom_operators:
            from neurald.runtime.litert.custom_device import CustomDevice

            found.append(CustomDevice(self._custom_operators))
        return found

    # Tensors.

    def allocate_tensors(self) -> None:
        """Prepares everything for the present shapes of the inputs.

        Raises:
            RuntimeError: the model cannot be computed, or there are views of tensors.
        """
        self._ensure_safe()
        self._main.allocate()

    def get_input_details(self) -> list[Details]:
        """Returns the descriptions of the inputs."""
        return [self._main.details(index) for index in self._main.inputs]

    def get_output_details(self) -> list[Details]:
        """Returns the descriptions of the outputs."""
        return [self._main.details(index) for index in self._main.outputs]

    def get_tensor_details(self, subgraph_index: int = 0) -> list[Details]:
        """Returns the descriptions of all tensors of a subgraph.

        Raises:
            ValueError: there is no such subgraph.
        """
        count = len(self._source.subgraphs)
        if subgraph_index < 0 or subgraph_index >= count:
            raise ValueError(
                f"subgraph_index is out of range: {subgraph_index} for the model, which has {count} subgraphs."
            )
        runner = self._runners.runner(integer(subgraph_index, "NumTensors"))
        return [runner.details(index) for index in range(runner.tensor_count)]

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copies a value to an input.

        Raises:
            ValueError: type or shape are wrong, there is no such tensor, or `allocate_tensors` is
                missing.
        """
        self._main.set(tensor_index, value)

    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int], strict: bool = False) -> None:
        """Changes the shape of an input; `allocate_tensors` must follow.

        Args:
            input_index: the number of the tensor.
            tensor_size: the new shape; the rank may change.
            strict: permits changes of dimensions only that the file leaves open.

        Raises:
            RuntimeError: the shape is not permitted, or there are views of tensors.
            ValueError: it is not a list of lengths.
        """
        self._ensure_safe()
        shape = np.array(tensor_size, np.int32)
        index = integer(input_index, "ResizeInputTensor")
        is_strict = flag(strict, "ResizeInputTensor")
        if shape.ndim != 1:
            raise ValueError(f"Shape should be 1D instead of {shape.ndim}.")
        self._main.resize(index, shape.tolist(), is_strict=is_strict)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> np.ndarray[Any, Any]:
        """Returns a copy of the value of a tensor.

        Results of operators inside of the model are kept with `experimental_preserve_all_tensors`.
        Without it the last run is repeated for them, if the inputs are still the same and the model
        has no variables.

        Raises:
            ValueError: there is no such tensor, or it has no value.
        """
        return self._interpreter.GetTensor(tensor_index, subgraph_index)

    def tensor(self, tensor_index: int) -> Callable[[], np.ndarray[Any, Any]]:
        """Returns a function that returns a view of a tensor's memory.

        While a view exists, `invoke`, `allocate_tensors` and `resize_tensor_input` fail.
        """
        return lambda: self._interpreter.tensor(self, tensor_index)

    def invoke(self) -> None:
        """Computes the outputs.

        Raises:
            RuntimeError: `allocate_tensors` is missing, there are views of tensors, or the
                execution failed.
        """
        self._ensure_safe()
        self._main.invoke()

    def reset_all_variables(self) -> None:
        """Gives variable tensors their initial values; resources keep theirs."""
        self._runners.reset_variables()

    # Signatures.

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Returns the names of the inputs and outputs of each signature."""
        return {
            key: {"inputs": list(each.inputs), "outputs": list(each.outputs)}
            for key, each in self._source.signatures.items()
        }

    def _get_full_signature_list(self) -> dict[str, dict[str, dict[str, int]]]:
        return signature_tables(self._source.signatures)

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """Returns the function of a signature; of the only one, if no name is given.

        Raises:
            ValueError: there is no such signature.
        """
        signatures = self._source.signatures
        if signature_key is None:
            if len(signatures) != 1:
                raise ValueError(
                    f"SignatureDef signature_key is None and model has {len(signatures)} Signatures. None is "
                    "only allowed when the model has 1 SignatureDef"
                )
            (signature_key,) = signatures
        return SignatureRunner(self, signature_key)

    def entry_point(self, signature_key: str) -> tuple[TfliteSignature, SubgraphRunner]:
        """Returns a signature, and what runs it.

        Raises:
            ValueError: there is no such signature.
        """
        signature = self._source.signatures.get(signature_key)
        if signature is None:
            raise ValueError(f'Invalid signature_key provided: "{signature_key}".')
        return signature, self._runners.runner(signature.subgraph)

    def num_subgraphs(self) -> int:
        """Returns the number of subgraphs."""
        return len(self._source.subgraphs)

    @property
    def experimental_compress_quantization_zero_points(self) -> bool:
        """The argument of that name. Zero points in details are never compressed."""
        return self._compresses

    # Methods that are private in LiteRT, but that other packages call.

    def _safe_to_run(self) -> bool:
        return not self._runners.has_views

    def _ensure_safe(self) -> None:
        if not self._safe_to_run():
            raise RuntimeError(_REFERENCES)

    def _native_handle(self) -> int:
        return self._interpreter.interpreter()

    def _get_tensor_details(self, tensor_index: int, subgraph_index: int) -> Details:
        number = integer(int(tensor_index), "TensorName")
        subgraph = integer(int(subgraph_index), "TensorName")
        return self._interpreter.runner(subgraph).details(number)

    def _get_op_details(self, op_index: int) -> Details:
        source, number = self._source.subgraphs[0], integer(op_index, "NodeName")
        if not 0 <= number < len(source.operators):
            raise ValueError("Invalid node index")
        return _operator_details(source.operators[number], source)

    def _get_ops_details(self) -> list[Details]:
        source = self._source.subgraphs[0]
        return [_operator_details(each, source) for each in source.operators]


class InterpreterWithCustomOps(Interpreter):
    """Interpreter with custom operators that functions in Python compute.

        def register(operators):
            operators.add("Twice", lambda inputs, options: inputs[0] * 2)

        InterpreterWithCustomOps(custom_op_registerers=[register], model_path="twice.tflite")

    Args:
        custom_op_registerers: functions that register operators, see `CustomOperators`, or names
            of such functions: of the program itself, or `module.function`. LiteRT's native ones are
            refused.
        kwargs: as for `Interpreter`.

    Raises:
        ValueError: there is no such function in Python; also as for `Interpreter`.
    """

    def __init__(
        self,
        custom_op_registerers: "Iterable[str | Registerer] | None" = None,
        **kwargs: Any,
    ) -> None:
        from neurald.runtime.litert.registerers import find_registerer
        from neurald.runtime.tflite.graph.custom_operators import CustomOperators

        self._custom_operators = CustomOperators()
        for each in custom_op_registerers or ():
            register = each if callable(each) else find_registerer(text(each, "CreateWrapper"))
            register(self._custom_operators)
        super().__init__(**kwargs)


def _operator_details(operator: Operator, source: TfliteSubgraph) -> Details:
    def types(indexes: Iterable[int]) -> list[Any]:
        return [element_type(source.tensors[index].type).scalar for index in indexes if index != OMITTED]

    is_custom = operator.code == BuiltinOperator.CUSTOM
    return {
        "index": operator.index,
        "op_name": operator.custom_code if is_custom else OPERATOR_NAMES.get(operator.code, "UNKNOWN"),
        "inputs": np.array(operator.inputs, np.int32),
        "outputs": np.array(operator.outputs, np.int32),
        "operand_types": types(operator.inputs),
        "result_types": types(operator.outputs),
    }
