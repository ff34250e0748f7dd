"""A model whose IF and WHILE are loops and branches around blocks of operations.

The operations of all graphs that it runs are in one flat graph, each in its own operands. An
operand that a copy, an update, an append or several blocks write is a variable of the program;
every other one has a single writer.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from neurald.drivers.compiler.frontend.lengths.symbolic_integers import Sum
from neurald.drivers.compiler.ir.extents.extent import Extent, has_extents
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array

if TYPE_CHECKING:
    # Most models with control flow have no open lengths.
    from neurald.drivers.compiler.ir.extents.scope import ExtentScope, Guard

#: Operations that run graphs.
CONTROL_FLOW = frozenset((OperationType.IF, OperationType.WHILE))


class BasicBlock(Struct, frozen=True, kw_only=True):
    """Operations that run one after another, by their positions in the flat graph."""

    operations: tuple[int, ...]


class Copy(Struct, frozen=True, kw_only=True):
    """Copies an operand to another one of the same type and number of elements."""

    target: int
    source: int


class Append(Struct, frozen=True, kw_only=True):
    """Copies the elements of an operand, and those of another one behind them.

    Nothing is copied but the appended elements if `source` and `target` can share memory.

    Attributes:
        target: has as many elements as both together.
        source, part: operands of its type.
    """

    target: int
    source: int
    part: int


class Update(Struct, frozen=True, kw_only=True):
    """Copies an operand, with a part of it replaced.

    Attributes:
        target, source: operands of the same shape.
        part: replaces as many elements of each dimension as it has.
        start: the index of the first replaced element along each dimension, an INT32 vector.
        message: the error if the part exceeds the operand; "" moves it inside instead.
        operation: the position in the flat graph of the operation that it implements.
    """

    target: int
    source: int
    part: int
    start: int
    message: str
    operation: int


class SliceIndex(Struct, frozen=True, kw_only=True):
    """An index where a slice begins or ends; negative ones count from the end.

    Attributes:
        number: the index that is given.
        whole: the length of the dimension.
        low: the least index; smaller ones become it.
    """

    number: Sum
    whole: "int | Extent"
    low: "int | Extent" = 0


class SliceSize(Struct, frozen=True, kw_only=True):
    """The number of elements of a slice; -1 takes all that are left.

    Attributes:
        number: what is given.
        rest: the number of elements from the first one of the slice on.
    """

    number: Sum
    rest: "int | Extent"


class InferredLength(Struct, frozen=True, kw_only=True):
    """A length of a shape for a known number of elements; -1 is what the other lengths leave.

    Attributes:
        number: what is given.
        others: the other lengths of the shape, as they are given.
        total: the number of elements.
    """

    number: Sum
    others: tuple[Sum, ...]
    total: "int | Extent"


#: A new value of a length.
NewLength: TypeAlias = "int | Extent | Sum | SliceIndex | SliceSize | InferredLength"


class LengthUpdate(Struct, frozen=True, kw_only=True):
    """Sets lengths that change in a run; see `neurald.drivers.compiler.ir.extents.extent`.

    Attributes:
        lengths: the new values of symbols, which are set at the same time.
        stores: lengths that are stored in operands, as integers; with the lengths before this
            update.
        guards: conditions that must hold for the lengths before it; else the model cannot run so.
    """

    lengths: tuple[tuple[int, NewLength], ...] = ()
    stores: tuple[tuple[int, tuple["int | Extent", ...]], ...] = ()
    guards: "tuple[Guard, ...]" = ()


def numbers_of(length: NewLength) -> "tuple[int | Extent | Sum, ...]":
    """Returns the numbers from which a new length is computed, and the constants of sums."""
    found: tuple[int | Extent | Sum, ...] = (length,) if isinstance(length, int | Extent | Sum) else ()
    if isinstance(length, SliceIndex):
        found = length.number, length.whole, length.low
    elif isinstance(length, InferredLength):
        found = length.number, length.total, *length.others
    elif isinstance(length, SliceSize):
        found = length.number, length.rest
    return (*found, *(each.constant for each in found if isinstance(each, Sum)))


def elements_of(update: LengthUpdate) -> Iterator[tuple[int, int]]:
    """Yields the elements that an update reads: operands, and numbers of their elements."""
    for _, length in update.lengths:
        for number in numbers_of(length):
            if isinstance(number, Sum):
                yield from (element for element, _ in number.terms)


class WhileLoop(Struct, frozen=True, kw_only=True):
    """Repeats a body while a condition holds.

    Attributes:
        condition: computes `test`, a BOOL.
        body: runs if it holds.
        lengths: sets the lengths of the next turn, with the lengths of this one.
        updates: assign the next values of variables, all at the same time.
        origin: the position of the WHILE in the original main graph.
    """

    condition: "tuple[Item, ...]"
    test: int
    body: "tuple[Item, ...]"
    updates: tuple[Copy, ...]
    origin: int
    lengths: LengthUpdate = LengthUpdate()


class Branch(Struct, frozen=True, kw_only=True):
    """Runs one of two lists of items.

    Attributes:
        condition: a BOOL.
        then, otherwise: run if it is true or false.
        origin: the position of the IF in the original main graph.
    """

    condition: int
    then: "tuple[Item, ...]"
    otherwise: "tuple[Item, ...]"
    origin: int


Item: TypeAlias = BasicBlock | Copy | Append | Update | LengthUpdate | WhileLoop | Branch


class StructuredModel(Struct, frozen=True, kw_only=True):
    """A model without IF and WHILE operations, and the program that runs its operations.

    Attributes:
        model: the flat graph is its main graph. All shapes are known, but may have extents.
        items: the program.
        origins: for each operation, the position of the one in the original main graph that it
            comes from.
        graphs: for each operation, the number of its original graph, for messages.
        scope: the lengths that change while the model runs; None if there are none.
        values: operands of integers that are lengths. They are not stored.
    """

    model: Model
    items: tuple[Item, ...]
    origins: tuple[int, ...]
    graphs: tuple[int, ...]
    scope: "ExtentScope | None"
    values: Mapping[int, Array]

    @property
    def has_loops(self) -> bool:
        """True if a part of the model is repeated."""
        return any(isinstance(each, WhileLoop) for each in each_item(self.items))

    @property
    def has_changing_lengths(self) -> bool:
        """True if lengths are only known while the model runs."""
        operands = self.model.main.operands
        return any(has_extents(each.dimensions or ()) for each in operands) or any(
            isinstance(each, LengthUpdate) and bool(each.lengths or each.stores or each.guards)
            for each in each_item(self.items)
        )


def each_item(items: Sequence[Item]) -> Iterator[Item]:
    """Iterates over items and those inside of them, in the order in which they run."""
    for item in items:
        yield item
        if isinstance(item, WhileLoop):
            yield from each_item(item.condition)
            yield from each_item(item.body)
            yield item.lengths
            yield from item.updates
        elif isinstance(item, Branch):
            yield from each_item(item.then)
            yield from each_item(item.otherwise)
