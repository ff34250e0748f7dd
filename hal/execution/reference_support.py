"""Says which operations of a model have a reference."""

from collections.abc import Sequence

from neurald.hal.device import Device, Verdict
from neurald.hal.extension_support import refused_operations
from neurald.hal.model.extension import TFLITE, vendor_extensions
from neurald.hal.model.model import Model

_SUPPORTED = Verdict(ok=True)


def supported_by_references(model: Model, device: Device) -> Sequence[Verdict]:
    """Returns a verdict for each operation: those with a reference are supported.

    Control flow is refused if its graphs contain operations of a vendor extension that `device`
    does not have.
    """
    outline = model.outline
    if outline.has_references and TFLITE in device.extensions:
        return (_SUPPORTED,) * len(outline.operations)
    from neurald.hal.operations import DEFINITIONS  # A start from the cache needs none.

    refused = refused_operations(model, device)
    operations = model.main.operations
    if not refused and all(kind in DEFINITIONS for kind in {operation.type for operation in operations}):
        return (_SUPPORTED,) * len(operations)
    return tuple(
        Verdict(ok=False, reason=f"{operation.type.name}: {refused[position]}")
        if position in refused
        else _SUPPORTED
        if operation.type in DEFINITIONS
        else Verdict(ok=False, reason=f"{operation.type.name} has no reference")
        for position, operation in enumerate(operations)
    )


def have_references(model: Model) -> bool:
    """Returns True if references run all operations, and none is of a vendor's extension."""
    from neurald.hal.operations import DEFINITIONS

    kinds = {operation.type for operation in model.main.operations}
    return all(kind in DEFINITIONS for kind in kinds) and not vendor_extensions(model)
