"""Runs one subgraph of a file, whose tensors are addressed by their numbers.

A program may give the inputs ever other shapes. What was prepared for the latest ones is kept, and
if there are many, the lengths that differ are left open, so that what is prepared takes them all.
"""

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct

from neurald.hal.errors import BadData, Error
from neurald.hal.model.model import Model
from neurald.hal.model.strings import as_strings, decode_strings
from neurald.hal.model.types import OperandType
from neurald.runtime.compilation import Compilation
from neurald.runtime.litert.arguments import integer
from neurald.runtime.litert.subgraphs.element_types import ElementType, element_type, name_of
from neurald.runtime.litert.subgraphs.tensor_details import Details, DetailTable
from neurald.runtime.tflite.file.schema import Tensor, TfliteSubgraph
from neurald.runtime.tflite.graph.state import shown_key, tensor_key
from neurald.runtime.tflite.kept.stored_entry import Entry

Array: TypeAlias = np.ndarray[Any, Any]

#: Loads the subgraph with other shapes of its inputs, by tensor, and whether to trust the shapes of
#: results in the file. A length of 0 leaves a dimension open.
Load: TypeAlias = Callable[[Mapping[int, Sequence[int]], bool], Entry]
#: Compiles a model; variables are shared with the other compilation, if there is one.
Compile: TypeAlias = Callable[[Model, Compilation | None], Compilation]

#: Largest length of a dimension.
_MAX_LENGTH: Final = 2**31 - 1
#: Number of sets of shapes for which something is prepared before lengths are left open, and number
#: of those for which it is kept. Code for any lengths is slower, so that few sets have their own.
_OWN_SHAPES: Final = 2
_MAX_PREPARED: Final = 4


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


class _Prepared(Struct, frozen=True):
    """The subgraph as a model, and its compilation."""

    entry: Entry
    compilation: Compilation


class SubgraphRunner:
    """The values of a subgraph's tensors, and what computes them. Not thread-safe.

    A change of the shape of an input has an effect with the next `allocate`. Until then the input
    has no value, and other tensors keep theirs.

    Args:
        source: the subgraph in the file.
        data: all bytes of the file.
        load: see `Load`.
        compiled: see `Compile`.
        name_of: returns the name of a tensor of any subgraph.
        begin: returns the names of the variables that the first run initialises.
    """

    def __init__(
        self,
        source: TfliteSubgraph,
        data: memoryview,
        load: Load,
        compiled: Compile,
        name_of: Callable[[int, int], str],
        begin: Callable[[], Collection[str]],
    ) -> None:
        self._name_of = name_of
        self._begin = begin
        self._source = source
        self._data = data
        self._load = load
        self._compile = compiled
        self._table = DetailTable(source, data)
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._values: dict[int, Array] = {}
        #: The one that is used last.
        self._prepared: list[_Prepared] = []
        #: The shapes that each was prepared for, whether it is still kept or not; none if no more
        #: lengths can be left open.
        self._earlier_shapes: list[Mapping[int, tuple[int, ...]]] | None = []
        self._leases: weakref.WeakSet[_Lease] = weakref.WeakSet()
        #: Why the declared shapes of open inputs, which stand for any others, cannot be computed.
        self._postponed: Error | None = None
        self.is_ready = False
        #: Number of runs, and whether the inputs still have the values of the last one.
        self.run_count = 0
        self._is_current = False

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
        return self._prepared[-1].entry if self._prepared else None

    @property
    def compilation(self) -> Compilation | None:
        """The compilation of the subgraph; None before `allocate`."""
        return self._prepared[-1].compilation if self._prepared else None

    @property
    def has_views(self) -> bool:
        """True if something holds a view of a tensor's memory."""
        return bool(self._leases)

    def shape(self, index: int) -> tuple[int, ...]:
        """Returns the present shape of a tensor."""
        if index in self._shapes:
            return self._shapes[index]
        tensor, value = self._source.tensors[index], self._values.get(index)
        # The values of a sparse tensor are a list.
        return tensor.shape if value is None or tensor.sparsity is not None else value.shape

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
        self._postponed = None
        entry, shapes = None, []
        if self._source.operators:
            try:
                entry = self._prepare()
                shapes = self._inferred(entry)
            except Error as error:
                raise RuntimeError(str(error)) from error
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
        variables = {
            shown_key(tensor_key(self._source.index, tensor.index))
            for tensor in self._source.tensors
            if tensor.is_variable
        }
        if variables and self.compilation is not None:
            self.compilation.state.reset(variables)
        self.is_ready = True

    def _prepare(self) -> Entry:
        """Loads and compiles the subgraph, unless what is there takes the shapes."""
        shapes = {index: self.shape(index) for index in self._source.inputs}
        for prepared in reversed(self._prepared):
            if all(_fits(shape, prepared.entry, index) for index, shape in shapes.items()):
                self._use(prepared)
                return prepared.entry
        changed = {
            index: shape
            for index, shape in shapes.items()
            if not _is_declared(shape, self._source.tensors[index])
        }
        entry = self._load_open(changed) or self._load_as_declared(changed)
        try:
            compilation = self._compile(entry.model, self.compilation)
        except BadData:
            # Variables whose shapes follow from the inputs' cannot keep their values.
            compilation = self._compile(entry.model, None)
        self._use(_Prepared(entry, compilation))
        if self._earlier_shapes is not None:
            self._earlier_shapes.append(shapes)
        return entry

    def _load_as_declared(self, shapes: Mapping[int, tuple[int, ...]]) -> Entry:
        """Loads the subgraph, without the shapes of results in the file if they are wrong.

        They are used only where results have no elements, or an unknown number of dimensions.
        """
        wrong: BadData | None = None
        entry: Entry | None = None
        try:
            entry = self._load(shapes, True)
            self._inferred(entry)
        except BadData as error:
            wrong = error
        else:
            return entry
        try:
            found = self._load(shapes, False)
            self._inferred(found)
        except BadData:
            # The errors name the shapes that the file states.
            if entry is None:
                raise wrong from None
            return entry
        return found

    def _use(self, prepared: _Prepared) -> None:
        kept = [each for each in self._prepared if each is not prepared]
        self._prepared = [*kept[1 - _MAX_PREPARED :], prepared]

    def _load_open(self, changed: Mapping[int, tuple[int, ...]]) -> Entry | None:
        """Loads the subgraph with open lengths where those of two sets of shapes differed.

        Args:
            changed: the shapes of inputs that the file does not declare.

        Returns:
            None if there were few sets of shapes, or if these lengths cannot be open.
        """
        earlier = self._earlier_shapes
        if earlier is None or len(earlier) < _OWN_SHAPES:
            return None
        opened = {
            index: tuple(
                0 if any(other[index][position : position + 1] != (length,) for other in earlier) else length
                for position, length in enumerate(shape)
            )
            for index, shape in changed.items()
        }
        try:
            if all(shape == changed[index] for index, shape in opened.items()):
                return None
            entry = self._load(opened, True)
            self._infer(entry)
        except BadData:
            # Other sets of shapes are not tried, since each attempt takes time.
            self._earlier_shapes = None
            return None
        return entry

    def _inferred(self, entry: Entry) -> list[tuple[int, ...] | None]:
        """Returns the shapes of the entry's outputs, as far as they are known before a run.

        Raises:
            BadData: the shapes of the inputs do not go together.
        """
        model, operands = entry.model, entry.model.main.operands
        found: Mapping[int, tuple[int, ...]] = {}
        if not all(operands[index].is_fully_specified for index in (*model.inputs, *model.outputs)):
            try:
                found = self._infer(entry)
            except BadData as error:
                if not self._has_placeholders():
                    raise
                self._postponed = error
        declared = {
            operand: operands[operand].dimensions
            for operand in model.outputs
            if operands[operand].is_fully_specified
        }
        return [found.get(operand, declared.get(operand)) for operand in model.outputs]

    def _infer(self, entry: Entry) -> Mapping[int, tuple[int, ...]]:
        """Returns the shapes that follow from the present ones of the inputs, by operand.

        Raises:
            BadData: the shapes of the inputs do not go together.
        """
        from neurald.hal.validation.shape_inference import bind_operations, infer_shapes  # slow to import

        model, graph = entry.model, entry.model.main
        given = {
            operand: self.shape(tensor) for operand, tensor in zip(model.inputs, entry.inputs, strict=True)
        }
        return infer_shapes(model, graph, bind_operations(graph), given)

    def _has_placeholders(self) -> bool:
        """Returns True if all inputs have the shapes in the file, and these leave lengths open."""
        tensors = [self._source.tensors[index] for index in self._source.inputs]
        return any(-1 in tensor.shape_signature for tensor in tensors) and all(
            self.shape(tensor.index) == tensor.shape for tensor in tensors
        )

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
        if has_memory and (index not in self._values or index in self._shapes):
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
        if not has_memory:
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
        if not self._prepared:
            return  # There are no operators: every output is an input or a constant.
        if self._postponed is not None:
            raise RuntimeError(str(self._postponed)) from self._postponed
        entry = self._prepared[-1].entry
        if not self.run_count and entry.model.state and (names := self._begin()):
            own = [variable for variable in entry.model.state if variable.name in names]
            self._prepared[-1].compilation.state.begin_with(own)
        try:
            results = self._prepared[-1].compilation.run(*[self._values[index] for index in entry.inputs])
        except Error as error:
            raise RuntimeError(str(error)) from error
        for index, result in zip(entry.outputs, results, strict=True):
            if index >= self.tensor_count or self._is_result(index):
                self._values[index] = result
        self.run_count += 1
        self._is_current = True

    def can_recompute(self, index: int) -> bool:
        """Returns True if another run would have the value that a result inside of the model had.

        It would not if the inputs have changed since the last run, if the run changed variables, or
        if it drew random numbers.
        """
        if not self._is_current or not 0 <= index < self.tensor_count or not self._prepared:
            return False
        model = self._prepared[-1].entry.model
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
            self.compilation.state.reset(names)

    def _tensor(self, index: int) -> Tensor:
        if not 0 <= index < len(self._source.tensors):
            raise ValueError(
                f"Invalid tensor index {index} exceeds max tensor index {len(self._source.tensors)}"
            )
        return self._source.tensors[index]

    def _element(self, index: int) -> ElementType:
        return element_type(self._source.tensors[index].type)


def _is_declared(shape: tuple[int, ...], tensor: Tensor) -> bool:
    """Returns True if a shape is one of those that the file declares for a tensor."""
    declared = tensor.shape_signature or tensor.shape
    return len(shape) == len(declared) and all(
        length == other or (other == -1 and length > 0) for length, other in zip(shape, declared, strict=True)
    )


def _fits(shape: tuple[int, ...], entry: Entry, tensor: int) -> bool:
    """Returns True if a loaded model takes a shape for an input."""
    operand = entry.model.main.operands[entry.model.inputs[entry.inputs.index(tensor)]]
    dimensions = operand.dimensions
    if operand.type is OperandType.TENSOR_STRING and dimensions is None:
        return True
    return (
        dimensions is not None
        and len(dimensions) == len(shape)
        and all(
            length in (0, given) and (given > 0 or length == given)
            for length, given in zip(dimensions, shape, strict=True)
        )
    )
