"""Variables of a `.tflite` file: their identification, and the effects of subgraphs on them.

A variable is a tensor that keeps its value (the state of a recurrent operator), or a resource that
operators access by a handle. During conversion, handles are tracked, not computed: for every
operator on a resource it is known which one it accesses. A called graph receives the variables that
it touches as additional inputs, and returns those that it assigns as additional outputs.
"""

from collections.abc import Sequence

from msgspec import Struct

from neurald.hal.model.graph import Operand
from neurald.runtime.tflite.file.flatbuffer import INT32
from neurald.runtime.tflite.file.schema import OMITTED, Operator, Tensor, shown
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator, BuiltinOptions, TensorType

#: Identifies a variable by its kind and names or numbers.
VariableKey = tuple[str, str, str]

#: The kind in the keys of hash tables.
TABLE = "hash table"

#: Operators that update the variables that they read.
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


class Effects(Struct, frozen=True, kw_only=True):
    """The effects of running a subgraph on variables.

    Attributes:
        touched: the variables that it reads or assigns, in the order of first use.
        assigned: the variables that it assigns.
        outputs: for each of its outputs the variable that it refers to, None for values.
    """

    touched: tuple[VariableKey, ...] = ()
    assigned: frozenset[VariableKey] = frozenset()
    outputs: tuple[VariableKey | None, ...] = ()

    def ordered(self, *, assigned: bool) -> tuple[VariableKey, ...]:
        """Returns the touched variables that it assigns, or those that it only reads."""
        return tuple(key for key in self.touched if (key in self.assigned) is assigned)


class CallArguments(Struct, frozen=True, kw_only=True):
    """Arguments of a call of a subgraph.

    Attributes:
        values: for each of its inputs the caller's operand, None for a handle.
        handles: for each of its inputs the variable that it refers to, None for a value.
        variables: its additional inputs, with operands that describe their values in the caller.
        leaving: its additional outputs.
    """

    values: tuple[Operand | None, ...]
    handles: tuple[VariableKey | None, ...]
    variables: tuple[tuple[VariableKey, Operand], ...]
    leaving: tuple[VariableKey, ...] = ()


def merge_effects(effects: Sequence[Effects]) -> Effects:
    """Combines the effects of subgraphs, any of which may run; `outputs` are those of the last."""
    return Effects(
        touched=tuple(dict.fromkeys(key for effect in effects for key in effect.touched)),
        assigned=frozenset[VariableKey]().union(*(effect.assigned for effect in effects)),
        outputs=effects[-1].outputs,
    )


def tensor_key(subgraph: int, tensor: int) -> VariableKey:
    """Returns the key of a tensor's variable."""
    return ("tensor", str(subgraph), str(tensor))


def handle_key(operator: Operator) -> VariableKey | None:
    """Returns the variable or hash table whose handle an operator creates.

    None if it creates none.
    """
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


def shown_key(key: VariableKey) -> str:
    """Formats the name of a variable for messages."""
    kind, container, name = key
    if kind == "tensor":
        return f"variable tensor {name} of subgraph {container}"
    return f"{kind} {shown(container + '/' + name if container else name)}"


def is_handle(tensor: Tensor) -> bool:
    """Returns True if the tensor's values are resource handles."""
    return tensor.type in _HANDLES


def variable_keys(handles: dict[int, VariableKey], indexes: Sequence[int]) -> tuple[VariableKey | None, ...]:
    """Returns the variables that these tensors refer to, None for values."""
    return tuple(None if index == OMITTED else handles.get(index) for index in indexes)
