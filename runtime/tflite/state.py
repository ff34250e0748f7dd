"""Variables of a `.tflite` file: how they are named, and which a subgraph touches.

A variable is a tensor that keeps its value (the state of a recurrent operator), or a resource that operators get by a handle. While a
graph is brought over, handles are followed, not computed: every operator on a resource knows at that time which one it is about.
A graph that is called takes the variables that it touches as further inputs, and those that it assigns as further outputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from neurald.hal.model.types import Operand
from neurald.runtime.tflite.flatbuffer import INT32
from neurald.runtime.tflite.numbers import BuiltinOperator, BuiltinOptions, TensorType
from neurald.runtime.tflite.schema import OMITTED, Operator, Tensor, shown

#: What a variable is known by: its kind and names, or numbers.
Key = tuple[str, str, str]

#: The kind of what hash tables are known by.
TABLE = "hash table"

#: Operators that leave new values in the variables that they read.
STATEFUL = frozenset(
    (
        BuiltinOperator.LSTM,
        BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM,
        BuiltinOperator.BIDIRECTIONAL_SEQUENCE_LSTM,
        BuiltinOperator.RNN,
        BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_RNN,
        BuiltinOperator.BIDIRECTIONAL_SEQUENCE_RNN,
        BuiltinOperator.SVDF,
    )
)

_HANDLES = frozenset((TensorType.RESOURCE, TensorType.VARIANT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What running a subgraph does to variables.

    Attributes:
        touched: the variables that it reads or assigns, in the order of the first time.
        assigned: those that it assigns.
        outputs: for each of its outputs the variable that it is a handle of, None for values.
    """

    touched: tuple[Key, ...] = ()
    assigned: frozenset[Key] = frozenset()
    outputs: tuple[Key | None, ...] = ()

    def ordered(self, *, assigned: bool) -> tuple[Key, ...]:
        """The touched variables that it assigns, or those that it only reads."""
        return tuple(key for key in self.touched if (key in self.assigned) is assigned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What a subgraph is called with.

    Attributes:
        values: for each of its inputs the caller's operand, None for a handle.
        handles: for each of its inputs the variable that it is a handle of, None for a value.
        variables: those that it gets as further inputs, with operands as their values are in the caller.
        leaving: the variables that it gives back as further outputs.
    """

    values: tuple[Operand | None, ...]
    handles: tuple[Key | None, ...]
    variables: tuple[tuple[Key, Operand], ...]
    leaving: tuple[Key, ...] = ()


def merge_effects(effects: Sequence[Effects]) -> Effects:
    """Of several subgraphs, any of which may run; `outputs` are those of the last."""
    return Effects(
        touched=tuple(dict.fromkeys(key for effect in effects for key in effect.touched)),
        assigned=frozenset[Key]().union(*(effect.assigned for effect in effects)),
        outputs=effects[-1].outputs,
    )


def tensor_key(subgraph: int, tensor: int) -> Key:
    """The variable that a tensor is."""
    return ("tensor", str(subgraph), str(tensor))


def handle_key(operator: Operator) -> Key | None:
    """The variable or hash table whose handle an operator makes; None for one that makes none."""
    options = operator.options
    if (
        operator.code == BuiltinOperator.VAR_HANDLE
        and operator.options_type == BuiltinOptions.VarHandleOptions
    ):
        container, name = (options.string(0), options.string(1)) if options is not None else ("", "")
        return ("variable", container or "", name or "")
    if (
        operator.code == BuiltinOperator.HASHTABLE
        and operator.options_type == BuiltinOptions.HashtableOptions
    ):
        return (TABLE, str(options.integer(0, INT32) if options is not None else 0), "")
    return None


def shown_key(key: Key) -> str:
    """How messages name a variable."""
    kind, container, name = key
    if kind == "tensor":
        return f"variable tensor {name} of subgraph {container}"
    return f"{kind} {shown(container + '/' + name if container else name)}"


def is_handle(tensor: Tensor) -> bool:
    """Whether the tensor's values stand for resources."""
    return tensor.type in _HANDLES


def keys_of(handles: dict[int, Key], indexes: Sequence[int]) -> tuple[Key | None, ...]:
    """What these tensors are handles of, None for values."""
    return tuple(None if index == OMITTED else handles.get(index) for index in indexes)
