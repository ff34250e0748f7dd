"""Loads a subgraph of a `.tflite` file with other input shapes, or with more outputs.

`load_tflite` covers what most programs need. This serves interfaces that address the tensors of a
file by their numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import Model
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import validate_model
from neurald.runtime.tflite.custom_operators import CustomOperators
from neurald.runtime.tflite.importer import Importer
from neurald.runtime.tflite.schema import TfliteFile, TfliteSubgraph
from neurald.runtime.tflite.state import is_handle


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A subgraph as a model.

    Attributes:
        model: its inputs and outputs are `inputs` and `outputs`.
        inputs, outputs: tensors of the subgraph; those of decompositions have higher numbers.
        origins: see `TfliteSubgraph`.
    """

    model: Model
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    origins: Mapping[tuple[int, int], int] = field(default_factory=dict)


def load_entry(
    file: TfliteFile,
    memory: Memory,
    subgraph: int,
    *,
    shapes: Mapping[int, Sequence[int]],
    keeps_all: bool = False,
    custom_operators: CustomOperators | None = None,
) -> Entry:
    """Loads a subgraph.

    Args:
        file: the file.
        memory: its bytes.
        subgraph: the number of the subgraph.
        shapes: the shapes of inputs that differ from those in the file, by tensor.
        keeps_all: makes the results of all operators outputs, after those of the subgraph. Results
            of operators on variables have no values.
        custom_operators: functions of custom operators.

    Raises:
        BadData: the file is damaged, or has unsupported operators.
    """
    importer = Importer(file, memory, custom_operators)
    source = importer.subgraph(subgraph)
    tensors = source.tensors
    source = with_input_shapes(source, shapes)
    outputs = [source.aliases.get(index, index) for index in source.outputs]
    if keeps_all:
        written = [
            index
            for operator in source.operators
            for index in operator.outputs
            if not is_handle(tensors[index])
        ]
        outputs += [index for index in written if index not in set(outputs)]
    main, state = importer.main(source, source.inputs, outputs)
    model = Model(main=main, referenced=tuple(importer.referenced), pools=importer.pools, state=state)
    validate_model(model)
    return Entry(
        model=model, inputs=source.inputs, outputs=tuple(outputs), origins=source.origins if keeps_all else {}
    )


def with_input_shapes(source: TfliteSubgraph, shapes: Mapping[int, Sequence[int]]) -> TfliteSubgraph:
    """Returns a subgraph whose inputs have other shapes. A length of 0 leaves a dimension open.

    Args:
        source: the subgraph.
        shapes: the shapes by tensor.
    """
    tensors = list(source.tensors)
    for index, shape in shapes.items():
        signature = tuple(length or -1 for length in shape) if 0 in shape else ()
        tensors[index] = replace(tensors[index], shape=tuple(shape), shape_signature=signature, has_rank=True)
    return replace(source, tensors=tuple(tensors))
