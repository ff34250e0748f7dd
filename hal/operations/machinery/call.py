"""One operation with the operands, shapes and values that are known so far.

Checks, shape rules and references all read their arguments from a `Call`, by name. At compile time
few values are known, at execution all are: a rule requests what it needs, and `UnknownValue` means
that it is not available yet.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import Array as Array
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.numbering import operand_name
from neurald.hal.model.types import FusedActivation, Lifetime, PaddingScheme
from neurald.hal.operations.machinery.signature import Binding, Parameter

Shape = tuple[int, ...]
RuleResult = TypeVar("RuleResult")


_ACTIVATIONS = {int(member): member for member in FusedActivation}
_PADDING_SCHEMES = {int(member): member for member in PaddingScheme}


class GraphRunner(Protocol):
    """Executes referenced graphs for control flow."""

    def run(self, graph: int, inputs: Sequence[Array]) -> list[Array]:
        """Runs the referenced graph with that index; returns its outputs."""
        ...

    def loop_deadline_s(self) -> float:
        """Returns the deadline of a loop that starts now, on the clock of `time.monotonic()`."""
        ...


class UnknownValue(Exception):
    """A shape or value is not known yet. No caller of a device sees it."""


class Call:
    """Arguments of one operation, by parameter name.

    Args:
        binding: the operands of each parameter.
        operands: the operands of the operation's subgraph.
        shape_of: returns the shape of an operand by index, None if it is not fully known.
        value_of: returns the value of an operand by index, None if it is not known.
        omitted: indexes of graph inputs that this execution omits.
        referenced: the model's other graphs.
        runner: executes the referenced graphs; available only at execution.
        expects_inputs: True if no graph input of known shape will be omitted. (Executions that omit
            one do without what is made of this call.)
    """

    __slots__ = (
        "_defaults",
        "_omitted",
        "_once",
        "_operands",
        "_referenced",
        "_runner",
        "_shape_of",
        "_value_of",
        "binding",
        "expects_inputs",
    )

    def __init__(
        self,
        binding: Binding,
        operands: Sequence[Operand],
        shape_of: Callable[[int], Shape | None],
        value_of: Callable[[int], Array | None],
        omitted: frozenset[int] = frozenset(),
        referenced: Sequence[Subgraph] = (),
        runner: GraphRunner | None = None,
        *,
        expects_inputs: bool = False,
    ) -> None:
        self.binding = binding
        self.expects_inputs = expects_inputs
        self._operands = operands
        self._shape_of = shape_of
        self._value_of = value_of
        self._omitted = omitted
        self._referenced = referenced
        self._runner = runner
        self._defaults: Mapping[str, Parameter] = binding.form.inputs_by_name
        self._once: dict[Callable[[Call], Any], Any] = {}

    def once(self, rule: Callable[["Call"], RuleResult]) -> RuleResult:
        """Evaluates `rule` once and caches the result, for shapes that depend on results."""
        if rule not in self._once:
            self._once[rule] = rule(self)
        result: RuleResult = self._once[rule]
        return result

    def has(self, name: str) -> bool:
        """Returns True if the operation has that input and does not omit it."""
        indexes = self.binding.inputs.get(name)
        return (
            indexes is not None
            and indexes[0] not in self._omitted
            and self._operands[indexes[0]].lifetime is not Lifetime.NO_VALUE
        )

    # Rules ask for operands so often that these methods do not call each other.

    def index(self, name: str) -> int:
        """Returns the operand index of an input or output."""
        inputs = self.binding.inputs.get(name)
        return (inputs if inputs is not None else self.binding.outputs[name])[0]

    def indexes(self, name: str) -> tuple[int, ...]:
        """Returns the operand indexes of a variadic input or output."""
        inputs = self.binding.inputs.get(name)
        return inputs if inputs is not None else self.binding.outputs[name]

    def operand_at(self, index: int) -> Operand:
        """Returns type and quantisation of the operand with that index."""
        return self._operands[index]

    def operand(self, name: str) -> Operand:
        """Returns type and quantisation of an input or output."""
        inputs = self.binding.inputs.get(name)
        return self._operands[(inputs if inputs is not None else self.binding.outputs[name])[0]]

    def operands(self, name: str) -> tuple[Operand, ...]:
        """Returns types and quantisations of a variadic input or output."""
        return tuple(self._operands[i] for i in self.indexes(name))

    def shape(self, name: str) -> Shape:
        """Returns the shape of an input.

        Raises:
            UnknownValue: it is not fully known yet.
            BadData: the operation does not support the rank, which the model leaves open.
        """
        inputs = self.binding.inputs.get(name)
        indexes = inputs if inputs is not None else self.binding.outputs[name]
        return self._shape_at(name, indexes[0]) if len(indexes) == 1 else self.shapes(name)[0]

    def shapes(self, name: str) -> tuple[Shape, ...]:
        """Returns the shapes of a variadic input, see `shape`."""
        return tuple([self._shape_at(name, index) for index in self.indexes(name)])

    def _shape_at(self, name: str, index: int) -> Shape:
        """Returns the shape of an operand of a parameter; see `shape`."""
        shape = self._shape_of(index)
        if shape is None:
            raise UnknownValue(name)
        parameter = self._defaults.get(name)
        if parameter is not None:
            low, high = parameter.ranks
            if not low <= len(shape) <= high and self._operands[index].type.is_tensor:
                ranks = f"rank {low}" if low == high else f"a rank from {low} to {high}"
                raise BadData(
                    f"{self.operand_label(index)} ({name} of {self.binding.type.name}) has rank "
                    f"{len(shape)}; {ranks} is expected"
                )
        return shape

    def array(self, name: str) -> Array:
        """Returns the value of an input, which must not be written.

        Raises:
            UnknownValue: it is not known yet.
        """
        inputs = self.binding.inputs.get(name)
        value = self._value_of((inputs if inputs is not None else self.binding.outputs[name])[0])
        if value is None:
            raise UnknownValue(name)
        return value

    def arrays(self, name: str) -> tuple[Array, ...]:
        """Returns the values of a variadic input."""
        values = tuple(self._value_of(i) for i in self.indexes(name))
        if any(value is None for value in values):
            raise UnknownValue(name)
        return values  # type: ignore[return-value]

    def replaced(self, name: str, value: Array) -> "Call":
        """Returns the same call with another value for an input."""
        return self.with_values({self.index(name): value})

    def with_values(self, values: Mapping[int, Array]) -> "Call":
        """Returns the same call with other values for operands."""
        shape_of, value_of = self._shape_of, self._value_of
        return Call(
            self.binding,
            self._operands,
            lambda each: values[each].shape if each in values else shape_of(each),
            lambda each: values[each] if each in values else value_of(each),
            self._omitted,
            self._referenced,
            self._runner,
            expects_inputs=self.expects_inputs,
        )

    def with_shapes(self, shape_of: Callable[[int], Shape | None]) -> "Call":
        """Returns the same call with other shapes of operands."""
        return Call(
            self.binding,
            self._operands,
            shape_of,
            self._value_of,
            self._omitted,
            self._referenced,
            self._runner,
            expects_inputs=self.expects_inputs,
        )

    def of_parts(
        self, operand_of: Callable[[Operand], Operand], array_of: Callable[[Array], Array]
    ) -> "Call":
        """Returns the same call on parts of elements.

        Args:
            operand_of: returns the operand of the parts.
            array_of: returns the parts of a value.
        """
        value_of = self._value_of

        def parts_of(index: int) -> Array | None:
            value = value_of(index)
            return None if value is None else array_of(value)

        return Call(
            self.binding,
            [operand_of(each) for each in self._operands],
            self._shape_of,
            parts_of,
            self._omitted,
            self._referenced,
            self._runner,
            expects_inputs=self.expects_inputs,
        )

    def scalar(self, name: str) -> Any:
        """Returns the value of a scalar input as a Python number, or its default.

        Raises:
            BadData: the parameter is a tensor whose value does not have exactly one element.
        """
        if name not in self.binding.inputs:
            return self._defaults[name].default if name in self._defaults else None
        value = self.array(name)
        if value.size != 1:
            raise BadData(f"{self.name(name)} has shape {list(value.shape)}; exactly one element is expected")
        return value.item()

    def scalar_in(self, name: str, low: int, high: int | None = None) -> int:
        """Returns an integer scalar that must be in the range `low` to `high`.

        Raises:
            BadData: it is out of range.
        """
        value: int = self.scalar(name)
        if value < low or (high is not None and value > high):
            limit = f"at least {low}" if high is None else f"from {low} to {high}"
            raise BadData(f"{self.name(name)} is {value}; it must be {limit}")
        return value

    @property
    def activation(self) -> FusedActivation:
        """The operation's fused activation.

        Raises:
            BadData: the number is not an activation.
        """
        value = self.scalar("activation")
        found = _ACTIVATIONS.get(value)
        if found is None:
            raise BadData(
                f"{self.name('activation')} is {value}; 0 (NONE), 1 (RELU), 2 (RELU1) or 3 (RELU6) is "
                "expected"
            )
        return found

    @property
    def padding_scheme(self) -> PaddingScheme:
        """The operation's implicit padding.

        Raises:
            BadData: the number is not a padding scheme.
        """
        value = self.scalar("padding_scheme")
        found = _PADDING_SCHEMES.get(value)
        if found is None:
            raise BadData(f"{self.name('padding_scheme')} is {value}; 1 (SAME) or 2 (VALID) is expected")
        return found

    def graph(self, name: str) -> Subgraph:
        """Returns the graph that an operand of type MODEL refers to.

        Raises:
            BadData: it refers to no graph.
        """
        return self._referenced[self.graph_index(name)]

    def graph_index(self, name: str) -> int:
        """Returns the index of `graph(name)` among the model's referenced graphs."""
        index = self.operand(name).subgraph
        if index is None or not 0 <= index < len(self._referenced):
            raise BadData(
                f"{self.name(name)} refers to no graph; one of the {len(self._referenced)} referenced graphs of "
                "the model is expected"
            )
        return index

    @property
    def runner(self) -> GraphRunner:
        """The executor of referenced graphs.

        Raises:
            UnknownValue: the call is not being executed.
        """
        if self._runner is None:
            raise UnknownValue("a graph")
        return self._runner

    def operand_label(self, index: int) -> str:
        """Returns a name for the operand with that index, for messages."""
        return operand_name(self._operands, index)

    def name(self, name: str) -> str:
        """Returns the name of an argument for messages."""
        if name in self.binding.inputs or name in self.binding.outputs:
            return f"{self.operand_label(self.index(name))} ({name} of {self.binding.type.name})"
        return f"{name} of {self.binding.type.name}"
