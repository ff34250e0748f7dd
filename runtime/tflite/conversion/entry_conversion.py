"""Converts a subgraph of a `.tflite` file, whose tensors stay addressed by their numbers."""

from collections.abc import Mapping, Sequence

from neurald.hal.memory.pool import Memory
from neurald.hal.model.model import Model
from neurald.hal.validation.model_rules import validate_accepted, validate_model
from neurald.runtime.tflite.conversion.importer import Importer
from neurald.runtime.tflite.conversion.input_shapes import with_input_shapes, without_result_shapes
from neurald.runtime.tflite.file.schema import TfliteFile
from neurald.runtime.tflite.graph.custom_operators import CustomOperators
from neurald.runtime.tflite.graph.state import is_handle
from neurald.runtime.tflite.kept.stored_entry import Entry


def convert_entry(
    file: TfliteFile,
    memory: Memory,
    subgraph: int,
    shapes: Mapping[int, Sequence[int]],
    custom_operators: CustomOperators | None,
    *,
    keeps_all: bool,
    trusts_file: bool,
) -> Entry:
    """Converts a subgraph; see `neurald.runtime.tflite.entry.load_entry`."""
    importer = Importer(file, memory, custom_operators)
    source = importer.subgraph(subgraph)
    tensors = source.tensors
    source = with_input_shapes(source, shapes)
    if not trusts_file:
        source = without_result_shapes(source)
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
    if importer.is_accepted:
        validate_accepted(model)
    else:
        validate_model(model)
    return Entry(
        model=model, inputs=source.inputs, outputs=tuple(outputs), origins=source.origins if keeps_all else {}
    )
