"""Runs one subgraph of a file, whose tensors are addressed by their numbers."""

import math
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import numpy as np

from neurald.hal.errors import BadData, Error, MissedDeadlineTransient
from neurald.hal.model.strings import as_strings, decode_strings
from neurald.runtime.compilation import Compilation
from neurald.runtime.litert.arguments import integer
from neurald.runtime.litert.subgraphs.element_types import ElementType, element_type, name_of
from neurald.runtime.litert.subgraphs.prepared_shapes import Compile, Load, PreparedShapes, Shapes
from neurald.runtime.litert.subgraphs.tensor_details import Details, DetailTable
from neurald.runtime.tflite.file.schema import Tensor, TfliteSubgraph
from neurald.runtime.tflite.graph.state import shown_key, tensor_key
from neurald.runtime.tflite.kept.stored_entry import Entry

Array: TypeAlias = np.ndarray[Any, Any]

#: Largest length of a dimension.
_MAX_LENGTH: Final = 2**31 - 1
#: Largest number of bytes that LiteRT can count.
_MAX_BYTES: Final = 2**64 - 1


class _Lease:
    """Memory of a tensor that lives as long as a view of it.

    Args:
        array: the memory.
    """

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._array.__array_interface__


class SubgraphRunner:
    """The values of a subgraph's tensors, and what computes them. Not thread-safe.

    A change of the shape of an input has an effect with the next `allocate`. Until then the input
    has no value, and other tensors keep theirs.

    Args:
        source: the subgraph in the file.
        data: all bytes of the file.
        load: see `Load`.
        load_all: the same with the results of all operators as outputs.
        compiled: see `Compile`.
        name_of: returns the name of a tensor of any subgraph.
        begin: returns the names of the variables that the first run initialises.
    """

    def __init__(
        self,
        source: TfliteSubgraph,
        data: memoryview,
        load: Load,
        load_all: Load,
        compiled: Compile,
        name_of: Callable[[int, int], str],
        begin: Callable[[], Collection[str]],
    ) -> None:
        self._name_of = name_of
        self._begin = begin
        self._source = source
        self._data = data
        self._prepared = PreparedShapes(source, load, compiled)
        self._inner = PreparedShapes(source, load_all, compiled)
        #: The shapes of the inputs in the last allocation, and those of the results inside of the
        #: subgraph that follow from them; None until somebody asks for them.
        self._allocated: Shapes = {}
        self._inner_shapes: Shapes | None = None
        #: The results inside of the subgraph that have values all the same.
        self._inner_values: set[int] = set()
        self._table = DetailTable(source, data)
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._values: dict[int, Array] = {}
        self._leases: weakref.WeakSet[_Lease] = weakref.WeakSet()
        self.is_ready = False
        #: Number of runs, and whether the inputs still have the values of the last one.
        self.run_count = 0
        self._is_current = False
        #: Whether a loop has run longer than usual executions allow.
        self._has_long_loops = False

    @property
    def inputs(self) -> tuple[int, ...]:
        """The numbers of the input tensors."""
        return self._source.inputs

    @property
    def outputs(self) -> tuple[int, ...]:
        """The numbers of the output tensors."""
        return self._source.outputs

    @property
    def tensor_count(self) -> int:
        """The number of tensors."""
        return len(self._source.tensors)

    @property
    def _entry(self) -> Entry | None:
        latest = self._prepared.latest
        return None if latest is None else latest.entry

    @property
    def compilation(self) -> Compilation | None:
        """The compilation of the subgraph; None before `allocate`."""
        latest = self._prepared.latest
        return None if latest is None else latest.compilation

    @property
    def has_views(self) -> bool:
        """True if something holds a view of a tensor's memory."""
        return bool(self._leases)

    def shape(self, index: int) -> tuple[int, ...]:
        """Returns the present shape of a tensor."""
        if index in self._shapes:
            return self._shapes[index]
        tensor, value = self._source.tensors[index], self._values.get(index)
        if value is None and self._is_result(index):
            return self._inferred().get(index, tensor.shape)
        # The values of a sparse tensor are a list.
        return tensor.shape if value is None or tensor.sparsity is not None else value.shape

    def _inferred(self) -> Shapes:
        """Returns the shapes of results in the last allocation, by tensor.

        It returns none if the inputs have the shapes that the file states, since the results then
        have them, too.
        """
        if self._inner_shapes is None:
            self._inner_shapes = {}
            tensors = self._source.tensors
            if any(shape != tensors[index].shape for index, shape in self._allocated.items()):
                # Shapes that cannot be inferred stay those of the file.
                with suppress(Error):
                    self._inner_shapes = self._inner.result_shapes(self._allocated)
        return self._inner_shapes

    def details(self, index: int) -> Details:
        """Returns the description of a tensor.

        Raises:
            ValueError: there is no such tensor.
        """
        tensor = self._tensor(index)
        details = self._table.details(index, self.shape(index))
        if not tensor.shape_signature:
            details["shape_signature"] = details["shape"].copy()
        return details

    def resize(self, index: int, shape: Sequence[int], *, is_strict: bool) -> None:
        """Changes the shape of an input.

        As in LiteRT the shape of a result can be changed, too, until `allocate` infers it again.

        Args:
            index: the number of the tensor.
            shape: the new shape; the rank may change, too.
            is_strict: permits changes of dimensions only that the file leaves open.

        Raises:
            RuntimeError: it is a constant, there is no such tensor, or the shape is not permitted.
        """
        number, wanted = integer(index, "ResizeInputTensor"), tuple(shape)
        # In LiteRT a shape without elements always is a new one, since there is no memory of it.
        if 0 <= number < self.tensor_count and (wanted != self.shape(number) or 0 in wanted):
            if is_strict:
                self._check_strict(number, wanted)
            # As in LiteRT `allocate` must follow even if the rest fails.
            self.is_ready = False
            if self._source.tensors[number].data is not None:
                raise RuntimeError("Attempting to resize a fixed-size tensor.")
        if not 0 <= number < self.tensor_count:
            raise RuntimeError(
                f"There is no tensor {number} to be resized; the subgraph has {self.tensor_count} tensors."
            )
        if any(not 0 <= length <= _MAX_LENGTH for length in wanted):
            raise RuntimeError(
                f"Cannot resize tensor {number} to {list(wanted)}: a length is negative or too large."
            )
        scalar = self._element(number).scalar
        if scalar is not np.bytes_:
            for what, size in (("elements", 1), ("bytes", np.dtype(scalar).itemsize)):
                if math.prod(wanted) * size > _MAX_BYTES:
                    raise RuntimeError(
                        f"BytesRequired number of {what} overflowed: tensor {number} is to be resized to "
                        f"{list(wanted)}"
                    )
        if wanted != self.shape(number):
            self._shapes[number] = wanted

    def _check_strict(self, index: int, wanted: tuple[int, ...]) -> None:
        tensor, present = self._source.tensors[index], self.shape(index)
        if len(wanted) != len(present):
            raise RuntimeError(
                f"Attempting to resize tensor {index} from rank {len(present)} to {len(wanted)}."
            )
        signature = tensor.shape_signature
        for dimension, new in enumerate(wanted):
            old = (signature or present)[dimension : dimension + 1]
            if old not in ((new,), (-1,)):
                raise RuntimeError(
                    f"Attempting to resize dimension {dimension} of tensor {index} with value "
                    f"{old[0] if old else present[dimension]} to {new}. "
                    "ResizeInputTensorStrict only allows mutating unknown dimensions identified by -1."
                )

    def allocate(self) -> None:
        """Prepares everything for the present shapes of the inputs.

        Values of inputs become 0, or what the file has for them. Variables get their initial
        values.

        Raises:
            RuntimeError: the subgraph cannot be computed with these shapes.
        """
        if self.is_ready:
            return
        self._is_current = False
        entry, shapes = None, []
        given = {index: self.shape(index) for index in self._source.inputs}
        if self._source.operators:
            try:
                shapes = self._prepared.prepare(given)
            except Error as error:
                raise RuntimeError(str(error)) from error
            entry = self._entry
        for index in self._source.inputs:
            if self._source.tensors[index].data is not None:
                self._value(index)
            elif index not in self._values or self._values[index].shape != self.shape(index):
                self._values[index] = self._zeros(index, self.shape(index))
        for index, shape in zip(() if entry is None else entry.outputs, shapes, strict=True):
            # A tensor of unknown length has no value until the first run.
            if shape is None:
                continue
            if index < self.tensor_count and self._is_result(index):
                self._values[index] = self._zeros(index, shape)
        self._shapes.clear()
        self._allocated, self._inner_shapes = given, None
        self._forget_inner()
        variables = {
            shown_key(tensor_key(self._source.index, tensor.index))
            for tensor in self._source.tensors
            if tensor.is_variable
        }
        if variables and self.compilation is not None:
            self._reset(self.compilation, variables)
        self.is_ready = True

    def _is_inner(self, index: int) -> bool:
        """Returns True for a result inside of an allocated subgraph that has no value."""
        entry = self._entry
        outputs = self._source.outputs if entry is None else entry.outputs
        if not self.is_ready or index in self._values or index in self._shapes or index in outputs:
            return False
        return self._is_result(index)

    def _forget_inner(self) -> None:
        """Removes the values of results that are no outputs, until a program gives them others."""
        for index in self._inner_values:
            self._values.pop(index, None)
        self._inner_values.clear()

    def _zeros(self, index: int, shape: tuple[int, ...]) -> Array:
        if self._element(index).scalar is np.bytes_:
            return np.full(shape, b"", object)
        return np.zeros(shape, self._element(index).scalar)

    def set(self, index: int, value: Any) -> None:
        """Copies a value to a tensor.

        Raises:
            ValueError: there is no such tensor, it has no memory yet, or the value does not go with
                it.
        """
        index = integer(index, "SetTensor")
        tensor = self._tensor(index)
        try:
            array = np.asarray(value, order="C")
        except ValueError:
            raise ValueError("Failed to convert value into readable tensor.") from None
        element = self._element(index)
        found = name_of(array.dtype)
        if found != element.name and not (element.name.startswith(("INT4", "INT2")) and found == "INT8"):
            raise ValueError(
                f"Cannot set tensor: Got value of type {found} but expected type {element.name} for input "
                f"{index}, name: {tensor.name} "
            )
        expected = self.shape(index)
        if array.ndim != len(expected):
            raise ValueError(
                f"Cannot set tensor: Dimension mismatch. Got {array.ndim} but expected {len(expected)} for "
                f"input {index}."
            )
        for dimension, (length, other) in enumerate(zip(array.shape, expected, strict=True)):
            if length != other:
                raise ValueError(
                    f"Cannot set tensor: Dimension mismatch. Got {length} but expected {other} for dimension "
                    f"{dimension} of input {index}."
                )
        if tensor.data is not None and index not in self._source.inputs:
            raise ValueError(f"Cannot set tensor: tensor {index}, name: {tensor.name}, is a constant")
        is_text = element.scalar is np.bytes_
        # As in LiteRT strings bring their own memory, and no elements need none.
        has_memory = not (is_text or 0 in expected)
        is_inner = self._is_inner(index)
        if has_memory and not is_inner and (index not in self._values or index in self._shapes):
            raise ValueError("Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() first")
        if is_text:
            if not isinstance(value, np.ndarray):
                raise ValueError(
                    f"Passed in value type is not a numpy array, got type {type(value).__name__}."
                )
            if array.dtype.kind == "S" and not array.ndim:
                # All bytes of a single string count, trailing zeros, too.
                array = np.array(array.tobytes(), object)
            try:
                array = as_strings(array, f"input {index}")
            except BadData as error:
                raise ValueError(f"Cannot set tensor: {error}") from error
        self._is_current = False
        if is_inner:
            self.keep(index, self._zeros(index, expected))
        elif not has_memory:
            self._values[index] = self._zeros(index, expected)
            self._shapes.pop(index, None)
        self._values[index][...] = array

    def get(self, index: int) -> Array:
        """Returns a copy of a tensor's value; of a number an object of NumPy's scalar types.

        Raises:
            ValueError: there is no such tensor, or it has no value.
        """
        value = self._value(integer(index, "GetTensor"))
        return value.copy() if value.ndim or value.dtype.hasobject else value[()]

    def view(self, index: int) -> Array:
        """Returns a view of a tensor's memory, which must not outlive the next `invoke`.

        Of a single number, and of strings, it returns what `get` returns.

        Raises:
            ValueError: there is no such tensor, or it has no value.
        """
        value = self._value(integer(index, "tensor"))
        if value.dtype.hasobject or not value.ndim:
            return self.get(index)
        if index in self._source.inputs:
            self._is_current = False  # The program may write to it.
        lease = _Lease(value)
        self._leases.add(lease)
        return np.asarray(lease)

    def keep(self, index: int, value: Array) -> None:
        """Keeps the value of a result inside of the subgraph until the next run."""
        self._values[index] = value
        self._inner_values.add(index)

    def _value(self, index: int) -> Array:
        tensor = self._tensor(index)
        compilation = self.compilation
        if tensor.is_variable and compilation is not None:
            state, name = compilation.state, shown_key(tensor_key(self._source.index, index))
            if name in state.names:
                return state.value(name)
        if index in self._values and index not in self._shapes:
            return self._values[index]
        if tensor.data is None:
            shape = self.shape(index)
            if 0 not in shape:
                raise ValueError("Tensor data is null. Run allocate_tensors() first")
            return self._zeros(index, shape)
        self._values[index] = self._constant(tensor, *tensor.data)
        return self._values[index]

    def _constant(self, tensor: Tensor, offset: int, length: int) -> Array:
        from neurald.runtime.tflite.conversion.unpacking import stored_values  # slow to import

        stored = self._data[offset : offset + length]
        element = self._element(tensor.index)
        try:
            if element.scalar is np.bytes_:
                return decode_strings(stored, tensor.shape)
            return stored_values(tensor, stored, np.dtype(element.scalar))
        except (Error, ValueError, TypeError) as error:
            raise ValueError(f"the value of {tensor} is damaged: {error}") from error

    def invoke(self) -> None:
        """Computes the outputs from the inputs.

        Raises:
            RuntimeError: `allocate` is missing, or the execution failed.
        """
        if not self.is_ready:
            raise RuntimeError("Invoke called on model that is not ready.")
        prepared = self._prepared.latest
        if prepared is None:
            return  # There are no operators: every output is an input or a constant.
        if (postponed := self._prepared.postponed) is not None:
            raise RuntimeError(str(postponed)) from postponed
        entry = prepared.entry
        if not self.run_count and entry.model.state and (names := self._begin()):
            own = [variable for variable in entry.model.state if variable.name in names]
            prepared.compilation.state.begin_with(own)
        try:
            results = self._run(prepared.compilation, [self._values[index] for index in entry.inputs])
        except Error as error:
            raise RuntimeError(str(error)) from error
        if self._inner_values:
            self._forget_inner()
        for index, result in zip(entry.outputs, results, strict=True):
            if index >= self.tensor_count or self._is_result(index):
                self._values[index] = result
        self.run_count += 1
        self._is_current = True

    def _run(self, compilation: Compilation, inputs: Sequence[Array]) -> list[Array]:
        """Runs the model. Unlike Android's, LiteRT's loops may take any time."""
        if not self._has_long_loops:
            try:
                return compilation.run(*inputs)
            except MissedDeadlineTransient:
                # The fastest ways to run a model have the default limit.
                self._has_long_loops = True
        return compilation.run_endless_loops(*inputs)

    def can_recompute(self, index: int) -> bool:
        """Returns True if another run would have the value that a result inside of the model had.

        It would not if the inputs have changed since the last run, if the run changed variables, or
        if it drew random numbers.
        """
        entry = self._entry
        if not self._is_current or not 0 <= index < self.tensor_count or entry is None:
            return False
        model = entry.model
        if index in self._values or index in self._shapes or not self._is_result(index) or model.state:
            return False
        # Most programs ask for outputs only, and start without it.
        from neurald.hal.execution.output_comparison import RANDOM

        graphs = (model.main, *model.referenced)
        return not any(operation.type in RANDOM for graph in graphs for operation in graph.operations)

    def repeat(self, other: "SubgraphRunner") -> None:
        """Runs the subgraph with the inputs of another runner of it.

        Raises:
            RuntimeError: the execution failed.
        """
        for index in self._source.inputs:
            if self._source.tensors[index].data is None:
                # They may have been resized since the run.
                self.resize(index, other._values[index].shape, is_strict=False)
        self.allocate()
        for index in self._source.inputs:
            self._values[index] = other._values[index].copy()
        self.invoke()

    def _is_result(self, index: int) -> bool:
        return index not in self._source.inputs and self._source.tensors[index].data is None

    def inserted(self, subgraph: int, tensor: int) -> Array | None:
        """Returns a copy of the last value of a decomposition's tensor; None if there is none."""
        index = None if self._entry is None else self._entry.origins.get((subgraph, tensor))
        value = None if index is None else self._values.get(index)
        return None if value is None else value.copy()

    def results(self) -> Iterator[tuple[str, Array]]:
        """Yields the names and present values of the inputs and of all results that are kept."""
        entry = self._entry
        outer = {*self._source.inputs, *(() if entry is None else entry.outputs)}
        for index in sorted(outer):
            if index < self.tensor_count and index in self._values:
                yield self._source.tensors[index].name, self._values[index]
        for (subgraph, tensor), index in ({} if entry is None else entry.origins).items():
            if index in self._values:
                yield self._name_of(subgraph, tensor), self._values[index]

    def reset_variables(self, names: Collection[str]) -> None:
        """Gives variables of some names their initial values.

        Raises:
            RuntimeError: they have no values before `allocate`.
        """
        if self.compilation is None and any(tensor.is_variable for tensor in self._source.tensors):
            raise RuntimeError("The variables have no memory. Run allocate_tensors() first")
        if self.compilation is not None:
            self._reset(self.compilation, names)

    @staticmethod
    def _reset(compilation: Compilation, names: Collection[str]) -> None:
        """Resets variables of some names; the compilation may not have those that nothing uses."""
        compilation.state.reset([name for name in compilation.state.names if name in names])

    def _tensor(self, index: int) -> Tensor:
        if not 0 <= index < len(self._source.tensors):
            raise ValueError(
                f"Invalid tensor index {index} exceeds max tensor index {len(self._source.tensors)}"
            )
        return self._source.tensors[index]

    def _element(self, index: int) -> ElementType:
        return element_type(self._source.tensors[index].type)
