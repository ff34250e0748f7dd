"""Converts the content of a `.tflite` file to a model."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from neurald.hal.api_arguments import integer, items
from neurald.hal.errors import BadData, WrongType
from neurald.hal.memory.pool import Memory
from neurald.hal.model.model import Model, SignatureNames
from neurald.hal.operations.machinery.call import Shape
from neurald.hal.validation.model_rules import validate_accepted, validate_model
from neurald.hal.validation.shape_inference import bind_operations, infer_shapes
from neurald.runtime.tflite.conversion.importer import Importer
from neurald.runtime.tflite.conversion.input_shapes import with_input_shapes, without_result_shapes
from neurald.runtime.tflite.file.schema import TfliteFile, TfliteSignature, TfliteSubgraph, shown


def convert(memory: Memory, name: str | None, shapes: Mapping[str, Sequence[int]]) -> Model:
    """Converts the file in a memory.

    Args:
        memory: the content of the file, which becomes pool 0 of the model.
        name: the name of the signature to load; None for the first subgraph.
        shapes: shapes of inputs by name, instead of those in the file.

    Raises:
        BadData: the file is damaged, has no such signature, or has unsupported operators.
    """
    model, given = _convert(memory, name, shapes, trusts_file=True)
    if any(0 in shape for shape in given.values()):
        try:
            infer_shapes(model, model.main, bind_operations(model.main), given)
        except BadData:
            # The file states shapes that results without elements do not have.
            with suppress(BadData):
                return _convert(memory, name, shapes, trusts_file=False)[0]
    return model


def _convert(
    memory: Memory, name: str | None, shapes: Mapping[str, Sequence[int]], *, trusts_file: bool
) -> tuple[Model, Mapping[int, Shape]]:
    """Converts the file.

    Returns:
        The model, and the shapes of its inputs by operand, as far as they are fixed.
    """
    file = TfliteFile(memory.view())
    signatures = MappingProxyType(
        {
            key: SignatureNames(inputs=tuple(entry.inputs), outputs=tuple(entry.outputs))
            for key, entry in file.signatures.items()
        }
    )
    importer = Importer(file, memory)
    if name is None:
        source = importer.subgraph(0)
        inputs, outputs = source.inputs, source.outputs
        names = SignatureNames(
            inputs=tuple(source.tensors[index].name for index in inputs),
            outputs=tuple(source.tensors[index].name for index in outputs),
        )
    else:
        if name not in file.signatures:
            keys = ", ".join(shown(key) for key in sorted(file.signatures))
            known = f"there are: {keys}" if keys else "the file has none, and is run without the name of one"
            raise BadData(f"there is no signature {shown(name)}; {known}")
        entry = file.signatures[name]
        source = importer.subgraph(entry.subgraph)
        inputs, outputs = _entry_tensors(entry, source, f"signature {shown(name)}")
        names = signatures[name]
    source = with_input_shapes(source, _shapes_by_tensor(shapes, names.inputs, inputs))
    if not trusts_file:
        source = without_result_shapes(source)
    main, state = importer.main(source, inputs, outputs)
    model = Model(
        main=main,
        referenced=tuple(importer.referenced),
        pools=importer.pools,
        state=state,
        input_names=names.inputs,
        output_names=names.outputs,
        signatures=signatures,
    )
    if importer.is_accepted:
        validate_accepted(model)
    else:
        validate_model(model)
    tensors = [source.tensors[index] for index in inputs]
    given = {
        operand: tensor.shape
        for operand, tensor in zip(model.inputs, tensors, strict=False)
        if -1 not in tensor.shape_signature
    }
    return model, given


def _shapes_by_tensor(
    shapes: Mapping[str, Sequence[int]], names: Sequence[str], inputs: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """Returns the shapes by the numbers of the tensors.

    Raises:
        BadData: there is no such input, or a shape is not valid.
        WrongType: a length is no integer.
    """
    tensors = dict(zip(names, inputs, strict=True))
    found: dict[int, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        if name not in tensors:
            known = ", ".join(shown(each) for each in tensors) or "none"
            raise BadData(
                f"a shape is given for {shown(str(name))}, which is not an input; there are: {known}"
            )
        given = items(shape, f"the shape of input {shown(name)}", "a sequence of lengths")
        if any(each is None for each in given):  # as in the shapes of `inputs_info`
            raise WrongType(f"a length of input {shown(name)} is None; 0 leaves a length open")
        lengths = [integer(each, f"a length of input {shown(name)}") for each in given]
        if any(not 0 <= length < 1 << 31 for length in lengths):
            raise BadData(
                f"input {shown(name)}: {lengths} is not a shape; lengths up to 2**31 - 1 are expected, and 0 for "
                "one that is left open"
            )
        found[tensors[name]] = tuple(lengths)
    return found


def _entry_tensors(
    entry: TfliteSignature, source: TfliteSubgraph, what: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the tensors of a signature's inputs and outputs.

    Its inputs must be those of the subgraph.
    """
    inputs, outputs = tuple(entry.inputs.values()), tuple(entry.outputs.values())
    if sorted(inputs) != sorted(source.inputs):
        raise BadData(f"{what} does not name each input of subgraph {entry.subgraph} exactly once")
    for label, index in entry.outputs.items():
        if index >= len(source.tensors):
            raise BadData(f"{what}: output {shown(label)} is tensor {index}; there are {len(source.tensors)}")
    return inputs, tuple(source.aliases.get(index, index) for index in outputs)
