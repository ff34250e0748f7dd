"""Makes a model of each block of a structured model."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    Append,
    BasicBlock,
    Branch,
    Copy,
    LengthUpdate,
    StructuredModel,
    Update,
    WhileLoop,
    each_item,
    elements_of,
)
from neurald.drivers.compiler.ir.extents.extent import is_zero
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime
from neurald.hal.operations.machinery.call import Array
from neurald.hal.records import replace

_VARIABLES = (Lifetime.SUBGRAPH_INPUT, Lifetime.SUBGRAPH_OUTPUT, Lifetime.TEMPORARY_VARIABLE)


class BlockModel(Struct, frozen=True, kw_only=True):
    """A block as a model.

    Attributes:
        model: its main graph has the operations of the block.
        inputs, outputs: the operands of the flat graph that are those of the model.
        lengths: the elements of operands of the model that are lengths.
        empty: the shapes of inputs that have no elements, which a model leaves open.
    """

    model: Model
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    lengths: Mapping[int, Array]
    empty: Mapping[int, Shape]


class BlockModels:
    """Makes the models of the blocks of a structured model."""

    def __init__(self, structured: StructuredModel) -> None:
        self._structured = structured
        self._graph = structured.model.main
        #: The number of blocks that read an operand, or more if other items do.
        self._readers = dict[int, int]()
        for index in self._graph.outputs:
            self._read(index, 2)
        for item in each_item(structured.items):
            if isinstance(item, BasicBlock):
                for index in self._read_by(item):
                    self._read(index, 1)
            else:
                for index in _controlling(item):
                    self._read(index, 2)

    def _read(self, index: int, times: int) -> None:
        self._readers[index] = self._readers.get(index, 0) + times

    def _read_by(self, block: BasicBlock) -> Mapping[int, None]:
        """Returns the variables that the operations of a block read, in order."""
        return dict.fromkeys(
            index
            for position in block.operations
            for index in self._graph.operations[position].inputs
            if self._graph.operands[index].lifetime in _VARIABLES and index not in self._structured.values
        )

    def of(self, block: BasicBlock) -> BlockModel:
        """Returns the model of a block. Its operations keep their order and their numbers."""
        graph, operations = self._graph, [self._graph.operations[each] for each in block.operations]
        computed = {index for operation in operations for index in operation.outputs}
        read = self._read_by(block)
        inputs = tuple(index for index in read if index not in computed)
        # One reader is this block, if it reads the operand itself.
        outputs = tuple(
            index for index in computed if self._readers.get(index, 0) > (1 if index in read else 0)
        )
        local: dict[int, int] = {}
        operands: list[Operand] = []
        for operation in operations:
            for index in (*operation.inputs, *operation.outputs):
                if index in local:
                    continue
                local[index] = len(operands)
                operand = graph.operands[index]
                if operand.lifetime in _VARIABLES:
                    is_input, is_output = index in inputs, index in outputs
                    lifetime = (
                        Lifetime.SUBGRAPH_INPUT
                        if is_input
                        else Lifetime.SUBGRAPH_OUTPUT
                        if is_output
                        else Lifetime.TEMPORARY_VARIABLE
                    )
                    operand = replace(operand, lifetime=lifetime)
                operands.append(operand)
        number = self._structured.graphs[block.operations[0]]
        main = Subgraph(
            operands=tuple(operands),
            operations=tuple(
                replace(
                    operation,
                    inputs=tuple(local[index] for index in operation.inputs),
                    outputs=tuple(local[index] for index in operation.outputs),
                )
                for operation in operations
            ),
            inputs=tuple(local[index] for index in inputs),
            outputs=tuple(local[index] for index in outputs),
            number=number,
        )
        model = self._structured.model
        return BlockModel(
            model=Model(main=main, referenced=(), pools=model.pools, relaxed=model.relaxed),
            inputs=inputs,
            outputs=outputs,
            lengths={
                local[index]: self._structured.values[index]
                for index in local
                if index in self._structured.values
            },
            empty={
                local[index]: shape
                for index in inputs
                if (shape := graph.operands[index].dimensions) and any(is_zero(each) for each in shape)
            },
        )


def _controlling(item: Copy | Append | Update | LengthUpdate | WhileLoop | Branch) -> Iterator[int]:
    """Yields the operands that an item reads itself."""
    if isinstance(item, Copy):
        yield item.source
    elif isinstance(item, Append):
        yield from (item.source, item.part)
    elif isinstance(item, Update):
        yield from (item.source, item.part, item.start)
    elif isinstance(item, LengthUpdate):
        yield from (operand for operand, _ in elements_of(item))
    elif isinstance(item, WhileLoop):
        yield item.test
    else:
        yield item.condition
