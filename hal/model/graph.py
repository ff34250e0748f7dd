"""The graphs of a model: operands, and the operations that read and write them.

The values are frozen, and shared by the runtime, drivers and messages.
"""

from msgspec import Struct, structs

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Dimensions, Lifetime, OperandType
from neurald.hal.wording import counted


class ChannelQuant(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """Scales of a TENSOR_QUANT8_SYMM_PER_CHANNEL operand, one for each index along `dimension`."""

    dimension: int
    scales: tuple[float, ...]


class Location(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A byte range in one of a model's pools."""

    pool: int
    offset: int
    length: int


class Operand(Struct, frozen=True, kw_only=True, array_like=True, eq=False, gc=False):
    """A value of a model: its type, shape and quantisation, and the bytes of a constant.

    Attributes:
        dimensions: see the module's docstring; `()` for scalar types.
        scale, zero_point: real value = (quantised value - zero_point) * scale; 0 if the type has
            none.
        value: the bytes of a CONSTANT_COPY operand.
        location: where the bytes of a CONSTANT_POOL operand are.
        subgraph: for a SUBGRAPH operand, the index into `Model.referenced`.
        name: the name for messages and `.npz` keys; need not be unique.
        extension_data: for an operand of a vendor's type, bytes that its devices interpret.
        number: its number in messages, see `neurald.hal.model.numbering`; None for its index.
    """

    type: OperandType
    dimensions: Dimensions = ()
    scale: float = 0.0
    zero_point: int = 0
    channel_quant: ChannelQuant | None = None
    lifetime: Lifetime = Lifetime.TEMPORARY_VARIABLE
    value: bytes = b""
    location: Location | None = None
    subgraph: int | None = None
    name: str = ""
    extension_data: bytes = b""
    number: int | None = None

    def __eq__(self, other: object) -> bool:
        """Compares everything but the number."""
        return isinstance(other, Operand) and _compared(self) == _compared(other)

    def __ne__(self, other: object) -> bool:
        return not self == other  # that of `Struct` compares identities

    def __hash__(self) -> int:
        return hash(_compared(self))

    @property
    def is_fully_specified(self) -> bool:
        """True if the rank and all dimensions are known."""
        return self.dimensions is not None and (0 not in self.dimensions or self.lifetime.is_constant)


def _compared(record: Struct) -> tuple[object, ...]:
    """Returns the fields of a record by which it is compared: all but its number, the last one."""
    return structs.astuple(record)[:-1]


class Operation(Struct, frozen=True, kw_only=True, array_like=True, eq=False, gc=False):
    """One operation of a subgraph: the operands that it reads and writes, by index.

    Attributes:
        number: its number in messages, see `neurald.hal.model.numbering`; None for its position.
    """

    type: OperationType
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    number: int | None = None

    def __eq__(self, other: object) -> bool:
        """Compares everything but the number."""
        return isinstance(other, Operation) and _compared(self) == _compared(other)

    def __ne__(self, other: object) -> bool:
        return not self == other  # that of `Struct` compares identities

    def __hash__(self) -> int:
        return hash(_compared(self))


class Subgraph(Struct, frozen=True, kw_only=True, array_like=True, eq=False, weakref=True):
    """Operands and operations in execution order; `inputs` and `outputs` are operand indexes.

    Attributes:
        number: the number of the graph in the application's model: 0 for the main graph, k + 1 for
            `Model.referenced[k]`. `Model` assigns missing numbers.
    """

    operands: tuple[Operand, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    number: int = 0

    @property
    def operation_numbers(self) -> tuple[int, ...]:
        """The application's numbers of all operations, in execution order."""
        return tuple([n if each.number is None else each.number for n, each in enumerate(self.operations)])

    def __eq__(self, other: object) -> bool:
        """Compares everything but the number."""
        return isinstance(other, Subgraph) and _compared(self) == _compared(other)

    def __ne__(self, other: object) -> bool:
        return not self == other  # that of `Struct` compares identities

    def __hash__(self) -> int:
        return hash(_compared(self))

    def __repr__(self) -> str:
        return (
            f"<Subgraph of {counted(len(self.operations), 'operation')}, "
            f"{counted(len(self.operands), 'operand')}, {counted(len(self.inputs), 'input')}, "
            f"{counted(len(self.outputs), 'output')}>"
        )
