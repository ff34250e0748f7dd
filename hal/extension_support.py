"""Which operations of a model a device is not asked about, since it does not have their extensions."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from weakref import WeakKeyDictionary

from neurald.hal.accounting.pacing import paced
from neurald.hal.device import Device, declared_extensions
from neurald.hal.errors import BadData
from neurald.hal.model.extension import Extension, Needed, extensions_needed
from neurald.hal.model.types import Model
from neurald.hal.validation.shape_inference import at_operation

_needed: WeakKeyDictionary[Model, Sequence[frozenset[Needed]]] = WeakKeyDictionary()


def refused_operations(
    model: Model, device: Device, disabled: Mapping[str, str] = MappingProxyType({})
) -> dict[int, str]:
    """The operations of the main graph that a device is not asked about, and why, by position.

    Args:
        model: a valid model.
        device: any device.
        disabled: extensions that nobody may use, and why, by name.
    """
    if model not in _needed:
        graph = model.main
        _needed[model] = [extensions_needed(model, graph, operation) for operation in paced(graph.operations)]
    declared = {extension.name: extension for extension in declared_extensions(device)}

    def objection(needed: Needed) -> str:
        name = needed.name if isinstance(needed, Extension) else needed
        if name not in device.extensions:
            return f"it does not list the extension {name}"
        if name in disabled:
            return f"the extension {name} is disabled: {disabled[name]}"
        if isinstance(needed, Extension) and declared.get(name) != needed:
            return f"it declares the extension {name} otherwise than the model"
        return ""

    answers: dict[Needed, str] = {}
    refused: dict[int, str] = {}
    for position, all_needed in enumerate(_needed[model]):
        for needed in sorted(all_needed, key=str):
            if needed not in answers:
                answers[needed] = objection(needed)
            if answers[needed]:
                refused.setdefault(position, answers[needed])
    return refused


def require_extensions(model: Model, device: Device) -> None:
    """Raises BadData if a model has an operation whose extensions a device does not have."""
    for position, reason in refused_operations(model, device).items():
        raise at_operation(model.main, position, BadData(f"{device.name}: {reason}"))
