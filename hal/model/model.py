"""A finished model: its graphs, the memories of its constants, its variables and entry points."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Self

from msgspec import Struct

from neurald.hal.lazy_numpy import np
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.elements import stored_array
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace
from neurald.hal.wording import counted


class SignatureNames(Struct, frozen=True, kw_only=True, array_like=True):
    """A named entry point of a `.tflite` file: the names of its inputs and outputs, in order."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class StateVariable(Struct, frozen=True, kw_only=True, eq=False):
    """A value that persists from one execution to the next.

    An execution reads it as one of the model's inputs and returns its new value as one of the
    outputs.

    Attributes:
        name: the name for messages.
        initial: value before the first execution.
    """

    name: str
    initial: "np.ndarray"


class ModelContent(Struct, frozen=True, kw_only=True, eq=False):
    """The graphs of a model and the memories of their constants; see `Model`."""

    main: Subgraph
    referenced: tuple[Subgraph, ...] = ()
    pools: tuple[Memory, ...] = ()


class Outline(Struct, frozen=True, kw_only=True, array_like=True, eq=False):
    """Describes what a start needs to know of a model that was compiled earlier.

    Attributes:
        inputs, outputs: those of the main graph.
        input_operands, output_operands: the same as operands.
        operations: the application's numbers of the main graph's operations.
        has_references: True if it is known that references run all operations, and that none is of
            a vendor's extension.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_operands: tuple[Operand, ...]
    output_operands: tuple[Operand, ...]
    operations: tuple[int, ...]
    has_references: bool = False

    @classmethod
    def of(cls, graph: Subgraph) -> Self:
        """Returns the outline of a model with this main graph."""
        operands = graph.operands
        return cls(
            inputs=graph.inputs,
            outputs=graph.outputs,
            input_operands=tuple([operands[index] for index in graph.inputs]),
            output_operands=tuple([operands[index] for index in graph.outputs]),
            operations=graph.operation_numbers,
        )


class Model:
    """A finished model, which never changes.

    Compared by identity; pools are referenced, never copied.

    The graphs and pools of a model that was converted earlier are read when they are asked for.

    Attributes:
        main: the graph that executions run.
        referenced: the graphs that IF and WHILE operations of any graph refer to.
        pools: the memories that hold CONSTANT_POOL operands.
        relaxed: whether float32 may be computed with the range and precision of float16.
        state: variables of the model. They are the last of `main.inputs` and of `main.outputs`, in
            this order.
        input_names, output_names: for each input and output that is not a state variable.
        signatures: the entry points that the model's file declares.
    """

    __slots__ = (
        "__weakref__",
        "_content",
        "_outline",
        "input_names",
        "output_names",
        "relaxed",
        "signatures",
        "state",
    )

    #: The content, or the function that reads it.
    _content: ModelContent | Callable[[], ModelContent]
    _outline: Outline | None
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    relaxed: bool
    signatures: Mapping[str, SignatureNames]
    state: tuple[StateVariable, ...]

    def __init__(
        self,
        *,
        main: Subgraph,
        referenced: tuple[Subgraph, ...] = (),
        pools: tuple[Memory, ...] = (),
        relaxed: bool = False,
        state: tuple[StateVariable, ...] = (),
        input_names: tuple[str, ...] = (),
        output_names: tuple[str, ...] = (),
        signatures: Mapping[str, SignatureNames] = MappingProxyType({}),
    ) -> None:
        if not all(graph.number for graph in referenced):
            referenced = tuple(
                [
                    graph if graph.number else replace(graph, number=position)
                    for position, graph in enumerate(referenced, start=1)
                ]
            )
        self._set(
            _content=ModelContent(main=main, referenced=referenced, pools=pools),
            _outline=None,
            relaxed=relaxed,
            state=state,
            input_names=input_names,
            output_names=output_names,
            signatures=signatures,
        )

    @classmethod
    def read_later(
        cls,
        outline: Outline,
        read: Callable[[], ModelContent],
        *,
        state: tuple[StateVariable, ...],
        input_names: tuple[str, ...],
        output_names: tuple[str, ...],
        signatures: Mapping[str, SignatureNames],
    ) -> Self:
        """Returns a model whose content is read when it is needed.

        Only neurald itself calls this.

        Args:
            outline: the outline of the main graph.
            read: returns the content, whose referenced graphs are numbered. Several threads may
                call it, at first.
            state, input_names, output_names, signatures: see the class.
        """
        model = cls.__new__(cls)
        model._set(
            _content=read,
            _outline=outline,
            relaxed=False,
            state=state,
            input_names=input_names,
            output_names=output_names,
            signatures=signatures,
        )
        return model

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a finished model does not change, so {name!r} cannot be set")

    def __replace__(self, **changes: Any) -> Self:
        """Returns a copy with the given attributes changed."""
        kept = {name: getattr(self, name) for name in _MODEL_ATTRIBUTES if name not in changes}
        return type(self)(**kept, **changes)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        """Pickles the model with its constants, so that it needs its file no more."""
        values = {name: getattr(self, name) for name in _MODEL_ATTRIBUTES}
        values["pools"] = tuple([bytes(pool.view()) for pool in self.pools])
        values["signatures"] = dict(self.signatures)
        return _unpickled_model, (values,)

    def __repr__(self) -> str:
        graphs = f", {counted(len(self.referenced), 'referenced graph')}" if self.referenced else ""
        operations = len(self.main.operations) + sum(len(graph.operations) for graph in self.referenced)
        return (
            f"<Model of {counted(operations, 'operation')}{graphs}, "
            f"{counted(len(self.inputs), 'input')}, {counted(len(self.outputs), 'output')}>"
        )

    @property
    def content(self) -> ModelContent:
        """The graphs and the memories of their constants, which are read now if they have not been.

        Raises:
            Error: they cannot be read.
        """
        found = self._content
        if isinstance(found, ModelContent):
            return found
        read = found()
        with _reading:
            # Another thread may have been faster.
            if isinstance(self._content, ModelContent):
                return self._content
            self._set(_content=read)
        return read

    @property
    def main(self) -> Subgraph:
        """The graph that executions run."""
        return self.content.main

    @property
    def referenced(self) -> tuple[Subgraph, ...]:
        """The graphs that IF and WHILE operations of any graph refer to."""
        return self.content.referenced

    @property
    def pools(self) -> tuple[Memory, ...]:
        """The memories that hold CONSTANT_POOL operands."""
        return self.content.pools

    @property
    def outline(self) -> Outline:
        """The part that is known without the content. The model must have been validated."""
        found = self._outline
        if found is None:
            found = Outline.of(self.main)
            self._set(_outline=found)
        return found

    @property
    def inputs(self) -> tuple[int, ...]:
        """The operands of `main` that an execution is given: its inputs without state variables."""
        inputs = self.main.inputs if self._outline is None else self._outline.inputs
        return inputs[: len(inputs) - len(self.state)]

    @property
    def outputs(self) -> tuple[int, ...]:
        """The operands of `main` that an execution returns: its outputs without state variables."""
        outputs = self.main.outputs if self._outline is None else self._outline.outputs
        return outputs[: len(outputs) - len(self.state)]

    @property
    def input_operands(self) -> tuple[Operand, ...]:
        """The operands that `inputs` are."""
        operands = self.outline.input_operands
        return operands[: len(operands) - len(self.state)]

    @property
    def output_operands(self) -> tuple[Operand, ...]:
        """The operands that `outputs` are."""
        operands = self.outline.output_operands
        return operands[: len(operands) - len(self.state)]

    def constant(self, operand: Operand) -> "np.ndarray | None":
        """Returns the value of a constant operand; None for any other lifetime.

        The array is read-only, has the operand's shape, and is not a copy except for bools and
        strings. The model must have been validated.
        """
        if operand.lifetime is Lifetime.CONSTANT_COPY:
            if not operand.type.is_tensor:
                return _scalar_array(operand.value, operand.type)
            source = memoryview(operand.value)
        elif operand.lifetime is Lifetime.CONSTANT_POOL and operand.location is not None:
            place = operand.location
            source = self.pools[place.pool].view(place.offset, place.length)
        else:
            return None
        array = stored_array(source, operand.type, operand.dimensions or ())
        array.flags.writeable = False
        return array


#: The names of the arguments that make a model.
_MODEL_ATTRIBUTES = (
    "main",
    "referenced",
    "pools",
    "relaxed",
    "state",
    "input_names",
    "output_names",
    "signatures",
)


def _unpickled_model(values: dict[str, Any]) -> Model:
    """Returns a model from its attributes, with the bytes of its pools instead of memories."""
    pools = [
        SharedMemory.constant(memoryview(pool)) if pool else HostMemory(pool) for pool in values["pools"]
    ]
    return Model(**{**values, "pools": tuple(pools)})


#: Held while a model gets the content that was read.
_reading = forkable_lock()


@lru_cache(maxsize=4096)
def _scalar_array(value: bytes, operand_type: OperandType) -> "np.ndarray":
    """Returns the read-only array of a scalar. Cached, because models repeat a few values."""
    array = stored_array(memoryview(value), operand_type, ())
    array.flags.writeable = False
    return array
