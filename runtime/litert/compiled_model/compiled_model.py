"""LiteRT's CompiledModel: runs signatures on buffers, with a choice of accelerators."""

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final

import numpy as np

from neurald.hal.device import MAX_THREADS
from neurald.runtime.litert.arguments import integer, lengths, text
from neurald.runtime.litert.compiled_model.accelerators import Accelerators
from neurald.runtime.litert.compiled_model.environment import Environment
from neurald.runtime.litert.compiled_model.messages import coded
from neurald.runtime.litert.compiled_model.options import HardwareAccelerator, Options
from neurald.runtime.litert.compiled_model.tensor_buffer import TensorBuffer, shown_type, zeros
from neurald.runtime.litert.subgraphs.element_types import element_type
from neurald.runtime.litert.subgraphs.model_source import Content, ModelSource, required_content
from neurald.runtime.litert.subgraphs.runner_table import RunnerTable
from neurald.runtime.litert.subgraphs.subgraph_runner import SubgraphRunner
from neurald.runtime.tflite.file.schema import TfliteSignature

#: The name of the entry point of a file without signatures, and another one that is understood.
_PLACEHOLDER: Final = "<placeholder signature>"
_DEFAULT: Final = "serving_default"

#: The beginning of messages about runs.
_FAILED: Final = "Failed to invoke the compiled model\n└ "
_NO_SIGNATURE: Final = "Signature index is out of range of signature keys"
#: LiteRT's messages for invalid models, by the source that a model is loaded from.
_BROKEN: Final = {"file": "Failed to build flatbuffer model", "buffer": "Invalid flatbuffer"}


class CompiledModel:
    """Runs the signatures of a file. Not thread-safe. Use it as a context manager, or close it.

    Args:
        source: the file.
        options: which devices are used, and how.
        environment: has no effect.
    """

    def __init__(self, source: ModelSource, options: Options, environment: Environment) -> None:
        self._environment = environment
        self._source = source
        values = options._as_flat_kwargs()
        self._accelerators = Accelerators(values["hardware_accel"], values["cpu_kernel_mode"])
        self._runners: RunnerTable | None = RunnerTable(
            source,
            self._accelerators.devices,
            min(max(values["cpu_num_threads"], 1), MAX_THREADS),
            starts_at_once=self._accelerators.start_at_once,
        )
        self._signatures = dict(source.signatures) or {_PLACEHOLDER: _whole(source)}

    @classmethod
    def from_file(
        cls,
        model_path: str | bytes | os.PathLike[str],
        hardware_accel: HardwareAccelerator | None = None,
        environment: Environment | None = None,
        options: Options | None = None,
    ) -> "CompiledModel":
        """Opens and compiles a file.

        Raises:
            RuntimeError: the file cannot be opened or compiled.
            ValueError: `hardware_accel` and `options` are both given, or the environment is closed.
        """
        return cls._opened(os.fsdecode(model_path), "file", hardware_accel, environment, options)

    @classmethod
    def from_buffer(
        cls,
        model_data: Content,
        hardware_accel: HardwareAccelerator | None = None,
        environment: Environment | None = None,
        options: Options | None = None,
    ) -> "CompiledModel":
        """Compiles the bytes of a file; see `from_file`."""
        return cls._opened(required_content(model_data), "buffer", hardware_accel, environment, options)

    @classmethod
    def _opened(
        cls,
        content: str | Content,
        kind: str,
        hardware_accel: HardwareAccelerator | None,
        environment: Environment | None,
        options: Options | None,
    ) -> "CompiledModel":
        environment = environment or Environment.create()
        environment.capsule  # noqa: B018 - raises an error if it is closed
        if options is not None and hardware_accel is not None:
            raise ValueError("Pass either options or hardware_accel, not both.")
        if options is None:
            options = Options(HardwareAccelerator.CPU if hardware_accel is None else hardware_accel)
        try:
            source = ModelSource(content)
        except ValueError as error:
            raise RuntimeError(f"Failed to load model from {kind}\n└ {_BROKEN[kind]}: {error}") from error
        model = cls(source, options, environment)
        for signature in model._signatures.values():
            model._table.runner(signature.subgraph).allocate()
        return model

    def __enter__(self) -> "CompiledModel":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Releases the compiled model; further uses fail."""
        self._runners = None

    @property
    def environment(self) -> Environment:
        """The environment."""
        return self._environment

    # Signatures.

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Returns the names of each signature's inputs and outputs, in the order of buffers."""
        return {key: self._names(key) for key in self._open_signatures}

    def get_num_signatures(self) -> int:
        """Returns the number of signatures."""
        return len(self._open_signatures)

    def get_signature_index(self, key: str) -> int:
        """Returns the number of a signature, -1 if there is none of that name.

        An empty name stands for the first one, here and in other calls.
        """
        keys = list(self._open_signatures)
        name = self._known(text(key, "GetSignatureIndex"))
        return -1 if name is None else keys.index(name)

    def get_signature_by_index(self, index: int) -> dict[str, Any]:
        """Returns name, inputs and outputs of a signature.

        Raises:
            RuntimeError: there is no such signature.
        """
        key = self._key(index, "GetSignatureByIndex")
        return {"key": key, **self._names(key)}

    def get_input_tensor_details(self, signature_key: str) -> dict[str, Any]:
        """Returns the descriptions of a signature's inputs by name.

        Raises:
            RuntimeError: there is no such signature.
        """
        signature = self._signature(signature_key, "GetInputTensorDetails")
        return self._details(signature, "inputs")

    def get_output_tensor_details(self, signature_key: str) -> dict[str, Any]:
        """Returns the descriptions of a signature's outputs; see `get_input_tensor_details`."""
        signature = self._signature(signature_key, "GetOutputTensorDetails")
        return self._details(signature, "outputs")

    # Buffers.

    def get_input_buffer_requirements(self, input_index: int, signature_index: int = 0) -> dict[str, Any]:
        """Returns the size in bytes that the buffer of an input needs.

        Raises:
            RuntimeError: there is no such signature or input.
        """
        return self._requirements(signature_index, "inputs", input_index)

    def get_output_buffer_requirements(self, output_index: int, signature_index: int = 0) -> dict[str, Any]:
        """Returns the size in bytes of an output's buffer; see `get_input_buffer_requirements`."""
        return self._requirements(signature_index, "outputs", output_index)

    def create_input_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """Creates buffers for all inputs of a signature.

        Raises:
            RuntimeError: there is no such signature.
        """
        return self._buffers(self._numbered(signature_index, "CreateInputBuffers"), "inputs")

    def create_output_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """Creates buffers for all outputs of a signature; see `create_input_buffers`."""
        return self._buffers(self._numbered(signature_index, "CreateOutputBuffers"), "outputs")

    def create_input_buffer_by_name(self, signature_key: str, input_name: str) -> TensorBuffer:
        """Creates a buffer for an input.

        Raises:
            RuntimeError: there is no such signature or input.
        """
        call = "CreateInputBufferByName"
        name = text(input_name, call)
        return self._buffer(self._signature(signature_key, call), "inputs", name)

    def create_output_buffer_by_name(self, signature_key: str, output_name: str) -> TensorBuffer:
        """Creates a buffer for an output; see `create_input_buffer_by_name`."""
        call = "CreateOutputBufferByName"
        name = text(output_name, call)
        return self._buffer(self._signature(signature_key, call), "outputs", name)

    def resize_input_tensor(
        self, input_index: int, dims: Sequence[int], signature_index: int = 0, strict: bool = True
    ) -> None:
        """Changes the shape of an input. New buffers must be created.

        It has an effect with the next run, or when the shape of an output is asked for, so that
        several inputs can be resized one after the other.

        Args:
            input_index: the number of the input.
            dims: the new shape.
            signature_index: the number of the signature.
            strict: permits changes of dimensions only that the file leaves open.

        Raises:
            RuntimeError: there is no such input, or it cannot have that shape.
        """
        call = "ResizeInputTensor"
        shape, number = lengths(dims, call), integer(input_index, call)
        signature = self._numbered(signature_index, call)
        names = _ordered(signature, "inputs", self._table.runner(signature.subgraph))
        if not 0 <= number < len(names):
            raise RuntimeError(coded(1000, "Input index out of range"))
        self._resize(signature, names[number], shape, is_strict=bool(strict))

    def resize_input_tensor_by_name(
        self, signature_key: str, input_name: str, dims: Sequence[int], strict: bool = True
    ) -> None:
        """Changes the shape of an input; see `resize_input_tensor`.

        Raises:
            ValueError: there is no such signature or input.
            RuntimeError: the input cannot have that shape.
        """
        # As in LiteRT neither an empty name nor bytes stand for a signature here.
        known = {*self._open_signatures, _DEFAULT}
        if self.get_signature_index(signature_key) < 0 or signature_key not in known:
            raise ValueError(f"Unknown signature: {signature_key}")
        signature = self._signature(signature_key, "ResizeInputTensor")
        if input_name not in list(signature.inputs):
            raise ValueError(f"Unknown input '{input_name}' for signature '{signature_key}'")
        shape = lengths(dims, "ResizeInputTensor")
        self._resize(signature, input_name, shape, is_strict=bool(strict))

    def _resize(
        self, signature: TfliteSignature, name: str, shape: Sequence[int], *, is_strict: bool
    ) -> None:
        runner = self._table.runner(signature.subgraph)
        if not shape:
            raise RuntimeError(coded(1, "New shape must not be empty."))
        if any(length <= 0 for length in shape):
            raise RuntimeError(coded(1, "Dimensions must be positive."))
        if is_strict and len(shape) != len(runner.shape(signature.inputs[name])):
            raise RuntimeError(coded(1, "New shape rank does not match current shape rank."))
        try:
            runner.resize(signature.inputs[name], shape, is_strict=is_strict)
        except RuntimeError as error:
            raise RuntimeError(
                coded(1, f"New shape is not compatible with current shape.\n└ {error}")
            ) from error

    def _allocated(self, signature: TfliteSignature, beginning: str = "") -> SubgraphRunner:
        """Returns the runner of a signature, ready for the present shapes of its inputs.

        Args:
            signature: the signature.
            beginning: the beginning of the message of an error.

        Raises:
            RuntimeError: the shapes do not go together.
        """
        runner = self._table.runner(signature.subgraph)
        try:
            runner.allocate()
        except RuntimeError as error:
            raise RuntimeError(coded(3, f"{beginning}Failed to allocate tensors: {error}")) from error
        return runner

    # Execution.

    def run_by_name(
        self,
        signature_key: str,
        input_map: Mapping[str, TensorBuffer],
        output_map: Mapping[str, TensorBuffer],
    ) -> None:
        """Runs a signature.

        Args:
            signature_key: the name of the signature.
            input_map: buffers for all inputs, by name. Others are ignored.
            output_map: buffers for all outputs, by name. Others are ignored.

        Raises:
            RuntimeError: a name is missing, a buffer does not go with its tensor, or the
                execution failed.
        """
        inputs, outputs = (
            {name: buffer.capsule for name, buffer in each.items()} for each in (input_map, output_map)
        )
        name = self._known(text(signature_key, "RunByName"))
        if name is None:
            raise RuntimeError(coded(6, f"Failed to get signature_index: there is none of {signature_key!r}"))
        named = [
            {_name(key, kind): buffer for key, buffer in each.items()}
            for each, kind in ((inputs, "input"), (outputs, "output"))
        ]
        self._run(self._signatures[name], *named)

    def run_by_index(
        self,
        signature_index: int,
        input_buffers: Sequence[TensorBuffer],
        output_buffers: Sequence[TensorBuffer],
    ) -> None:
        """Runs a signature with buffers in the order of `get_signature_list`; see `run_by_name`."""
        given = [[buffer.capsule for buffer in each] for each in (input_buffers, output_buffers)]
        keys, number = list(self._open_signatures), integer(signature_index, "RunByIndex")
        if not 0 <= number < len(keys):
            raise RuntimeError(coded(1000, f"{_FAILED}{_NO_SIGNATURE}: {number}; there are {len(keys)}"))
        signature = self._signatures[keys[number]]
        runner = self._table.runner(signature.subgraph)
        maps = []
        for kind, buffers in zip(("inputs", "outputs"), given, strict=True):
            names = _ordered(signature, kind, runner)
            if len(buffers) != len(names):
                what = kind.removesuffix("s").capitalize()
                raise RuntimeError(
                    coded(
                        3,
                        f"{_FAILED}{what} buffer size mismatch: number of {kind}:{len(names)} vs "
                        f"buffers:{len(buffers)}",
                    )
                )
            maps.append(dict(zip(names, buffers, strict=True)))
        self._run(signature, *maps)

    def _run(
        self,
        signature: TfliteSignature,
        inputs: Mapping[str, TensorBuffer],
        outputs: Mapping[str, TensorBuffer],
    ) -> None:
        for kind, given, known in (
            ("output", outputs, signature.outputs),  # LiteRT asks only for outputs
            ("input", inputs, signature.inputs),
        ):
            missing = sorted(set(known).difference(given))
            if missing:
                raise RuntimeError(
                    coded(6, f"The given map is missing some {kind} TensorBuffers: those of {missing}")
                )
        for name in signature.inputs:
            self._adapt(signature, name, inputs[name].array)
        runner = self._allocated(signature, _FAILED)
        for name, index in signature.inputs.items():
            try:
                runner.set(index, inputs[name].array.reshape(runner.shape(index)))
            except ValueError as error:
                raise RuntimeError(coded(3, str(error))) from error
        try:
            runner.invoke()
        except RuntimeError as error:
            raise RuntimeError(coded(3, f"{_FAILED}{error}")) from error
        for name, index in signature.outputs.items():
            value = runner.get(index)
            try:
                outputs[name].store(value)
            except (ValueError, RuntimeError) as error:
                raise RuntimeError(coded(3, f"{_FAILED}output {name!r}: {error}")) from error

    def _adapt(self, signature: TfliteSignature, name: str, array: np.ndarray[Any, Any]) -> None:
        """Gives an input the shape of its buffer, if the file leaves open the lengths that differ.

        Raises:
            RuntimeError: it cannot have that shape.
        """
        runner, tensor = self._table.runner(signature.subgraph), signature.inputs[name]
        present, wanted = runner.shape(tensor), array.shape
        if wanted == present or (
            len(wanted) != len(present) and array.size == np.prod(present, dtype=np.int64)
        ):
            return  # Memory of the host need not have the tensor's dimensions.
        declared = self._source.subgraphs[signature.subgraph].tensors[tensor].shape_signature
        if len(wanted) != len(present):
            reason = f"rank mismatch (current: {len(present)}, new: {len(wanted)})"
        elif not declared:
            reason = "no dims_signature exists"
        elif 0 in wanted:
            reason = f"invalid dimension size 0 at index {wanted.index(0)}"
        else:
            try:
                runner.resize(tensor, wanted, is_strict=True)
            except RuntimeError as error:
                reason = str(error)
            else:
                return
        raise RuntimeError(
            coded(
                3,
                f"{_FAILED}Failed to register input tensor buffer: Cannot auto-resize tensor {name}: {reason}: "
                f"its buffer has the shape {list(wanted)}; {list(present)} is expected",
            )
        )

    def is_fully_accelerated(self) -> bool:
        """Returns True if all operations run on the accelerators that were asked for.

        If other devices than the CPU were asked for, the CPU does not count as one of them. If none
        were, the kernels of the mode DELEGATE, which are compiled for the model, have to run all
        operations.
        """
        runners = [self._table.runner(each.subgraph) for each in self._open_signatures.values()]
        return self._accelerators.run_all_of(
            runner.compilation for runner in runners if runner.compilation is not None
        )

    # Look-ups.

    @property
    def _table(self) -> RunnerTable:
        if self._runners is None:
            raise AttributeError("the compiled model has been closed")  # as in LiteRT, whose is None
        return self._runners

    @property
    def _open_signatures(self) -> dict[str, TfliteSignature]:
        """The signatures, of a model that is not closed."""
        self._table  # noqa: B018 - raises an error if it is
        return self._signatures

    def _known(self, key: str) -> str | None:
        if key == "":
            return next(iter(self._open_signatures))
        if key == _DEFAULT and key not in self._open_signatures and _PLACEHOLDER in self._open_signatures:
            return _PLACEHOLDER
        return key if key in self._open_signatures else None

    def _signature(self, given: str | bytes, call: str) -> TfliteSignature:
        key = text(given, call)
        name = self._known(key)
        if name is None:
            raise RuntimeError(coded(6, f"Signature not found: {key}"))
        return self._signatures[name]

    def _key(self, index: int, call: str) -> str:
        keys, number = list(self._open_signatures), integer(index, call)
        if not 0 <= number < len(keys):
            raise RuntimeError(coded(1000, f"{_NO_SIGNATURE}: {number}; there are {len(keys)}"))
        return keys[number]

    def _numbered(self, index: int, call: str) -> TfliteSignature:
        return self._signatures[self._key(index, call)]

    def _runner(self, signature: TfliteSignature, kind: str) -> SubgraphRunner:
        """Returns the runner of a signature; ready for outputs, whose shapes are known."""
        return self._table.runner(signature.subgraph) if kind == "inputs" else self._allocated(signature)

    def _names(self, key: str) -> dict[str, list[str]]:
        signature = self._signatures[key]
        runner = self._table.runner(signature.subgraph)
        return {kind: _ordered(signature, kind, runner) for kind in ("inputs", "outputs")}

    def _details(self, signature: TfliteSignature, kind: str) -> dict[str, Any]:
        runner = self._runner(signature, kind)
        tensors = _tensors(signature, kind)
        found = {}
        for name in _ordered(signature, kind, runner):
            details = runner.details(tensors[name])
            found[name] = {
                "name": details["name"],
                "index": details["index"],
                "dtype": shown_type(np.dtype(details["dtype"])),
                "shape": details["shape"].tolist(),
            }
        return found

    def _requirements(self, signature_index: int, kind: str, position: int) -> dict[str, Any]:
        what = kind.removesuffix("s").capitalize()
        call = f"Get{what}BufferRequirements"
        number = integer(position, call)
        signature = self._numbered(signature_index, call)
        names = _ordered(signature, kind, self._table.runner(signature.subgraph))
        if not 0 <= number < len(names):
            raise RuntimeError(coded(1000, f"{what} index out of range"))
        tensor = _tensors(signature, kind)[names[number]]
        scalar = self._scalar(signature, tensor)
        elements = int(np.prod(self._runner(signature, kind).shape(tensor), dtype=np.int64))
        # The lengths of texts are not known in advance.
        size = 0 if scalar is np.bytes_ else elements * np.dtype(scalar).itemsize
        return {"buffer_size": size, "supported_types": [1]}

    def _buffers(self, signature: TfliteSignature, kind: str) -> list[TensorBuffer]:
        runner = self._table.runner(signature.subgraph)
        return [self._buffer(signature, kind, name) for name in _ordered(signature, kind, runner)]

    def _buffer(self, signature: TfliteSignature, kind: str, name: str) -> TensorBuffer:
        tensors, runner = _tensors(signature, kind), self._runner(signature, kind)
        if name not in tensors:
            raise RuntimeError(coded(6, f"{kind.removesuffix('s').capitalize()} tensor not found: {name}"))
        scalar = self._scalar(signature, tensors[name])
        if scalar is np.bytes_:
            what = kind.removesuffix("s")
            raise RuntimeError(
                coded(3, f"{what} {name!r} has texts, for which there are no buffers; use Interpreter")
            )
        return zeros(runner.shape(tensors[name]), scalar)

    def _scalar(self, signature: TfliteSignature, tensor: int) -> type[np.generic]:
        source = self._source.subgraphs[signature.subgraph]
        return element_type(source.tensors[tensor].type).scalar


def _name(key: Any, kind: str) -> str:
    """Returns a name in the map of buffers.

    Raises:
        RuntimeError: it is none.
    """
    try:
        return text(key, "RunByName")
    except TypeError as error:
        raise RuntimeError(f"{kind}_map key not a string.\n└ {key!r} is given; a name is expected") from error


def _whole(source: ModelSource) -> TfliteSignature:
    """Returns a signature of the first subgraph, named like its tensors."""
    first = source.subgraphs[0]
    return TfliteSignature(
        subgraph=0,
        inputs={first.tensors[index].name: index for index in first.inputs},
        outputs={first.tensors[index].name: index for index in first.outputs},
    )


def _tensors(signature: TfliteSignature, kind: str) -> Mapping[str, int]:
    return signature.inputs if kind == "inputs" else signature.outputs


def _ordered(signature: TfliteSignature, kind: str, runner: SubgraphRunner) -> list[str]:
    """Returns names in the order of the tensors of the subgraph."""
    order = runner.inputs if kind == "inputs" else runner.outputs
    tensors = _tensors(signature, kind)
    return sorted(
        tensors, key=lambda name: order.index(tensors[name]) if tensors[name] in order else len(order)
    )
