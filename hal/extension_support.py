"""Finds the operations of a model whose extensions a device does not have."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from weakref import WeakKeyDictionary

from neurald.hal.accounting.pacing import paced
from neurald.hal.device import Device, declared_extensions
from neurald.hal.errors import BadData
from neurald.hal.model.extension import Extension, RequiredExtension, required_extensions
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import TFLITE_EXTENSION_BASE, OperationType

_needed: WeakKeyDictionary[Model, Sequence[frozenset[RequiredExtension]]] = WeakKeyDictionary()


def refused_operations(
    model: Model, device: Device, disabled: Mapping[str, str] = MappingProxyType({})
) -> dict[int, str]:
    """Returns the operations of the main graph that a device is not asked about, with reasons.

    Args:
        model: a valid model.
        device: any device.
        disabled: extensions that must not be used, with the reason, by name.

    Returns:
        The reason for each such operation, by position.
    """
    if model not in _needed:
        _needed[model] = _required(model)
    declared = {extension.name: extension for extension in declared_extensions(device)}

    def objection(required: RequiredExtension) -> str:
        name = required.name if isinstance(required, Extension) else required
        if name not in device.extensions:
            return f"it does not list the extension {name}"
        if name in disabled:
            return f"the extension {name} is disabled: {disabled[name]}"
        if isinstance(required, Extension) and declared.get(name) != required:
            return f"it declares the extension {name} differently from the model"
        return ""

    # Few combinations of extensions occur.
    answers: dict[frozenset[RequiredExtension], str] = {}
    refused: dict[int, str] = {}
    for position, all_required in enumerate(_needed[model]):
        if all_required not in answers:
            objections = (objection(required) for required in sorted(all_required, key=str))
            answers[all_required] = next(filter(None, objections), "")
        if answers[all_required]:
            refused[position] = answers[all_required]
    return refused


def _required(model: Model) -> Sequence[frozenset[RequiredExtension]]:
    """Returns the extensions that each operation of the main graph needs."""
    graph = model.main
    # Most operands are of no extension. What other operations need depends on their types.
    others = {
        index
        for index, operand in enumerate(graph.operands)
        if operand.type >= TFLITE_EXTENSION_BASE or operand.subgraph is not None
    }
    by_type: dict[OperationType, frozenset[RequiredExtension]] = {}
    found = []
    for operation in paced(graph.operations):
        if not others.isdisjoint(operation.inputs) or not others.isdisjoint(operation.outputs):
            found.append(required_extensions(model, graph, operation))
            continue
        required = by_type.get(operation.type)
        if required is None:
            required = by_type[operation.type] = required_extensions(model, graph, operation)
        found.append(required)
    return found


def require_extensions(model: Model, device: Device) -> None:
    """Raises BadData if an operation of a model needs an extension that a device does not have."""
    for position, reason in refused_operations(model, device).items():
        from neurald.hal.validation.shape_inference import at_operation  # slow to import

        raise at_operation(model.main, position, BadData(f"{device.name}: {reason}"))
