"""Lowerings of operations to compiler graphs, one family per file.

Families are named as in `neurald.hal.operations`. `LOWERINGS` is the table of all of them. A family
is imported when one of its operations is looked up, since a model uses few.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TypeVar

from neurald.drivers.compiler.lowering.machinery.table import BoundedLowerings, Lowerings
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations import FAMILIES

#: Families lowered by another family's module.
_SHARED_MODULES: Mapping[str, str] = {
    "convolution.depthwise_convolution": "convolution.convolution",
    "convolution.grouped_convolution": "convolution.convolution",
    "tflite.movement.concatenation": "tflite.movement.shape",
    "tflite.movement.stacking": "tflite.movement.shape",
    "tflite.movement.transpose": "tflite.movement.shape",
}
#: Families without lowerings.
_NOT_LOWERED = frozenset(
    (
        "control_flow",
        "tflite.text",
    )
)
_MODULES = {
    kind: _SHARED_MODULES.get(family, family)
    for family, kinds in FAMILIES.items()
    if family not in _NOT_LOWERED
    for kind in kinds
}

_L = TypeVar("_L")


class _Table(Mapping[OperationType, _L]):
    """Lowerings of all families, imported on demand. Operations of a family may lack one.

    Args:
        name: the name of the table in each family's module, which need not have one.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, kind: OperationType) -> _L:
        return self._family(kind)[kind]

    def __iter__(self) -> Iterator[OperationType]:
        return (kind for kind in _MODULES if kind in self._family(kind))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _family(self, kind: OperationType) -> Mapping[OperationType, _L]:
        lowerings: Mapping[OperationType, _L] = getattr(
            import_module(f"{__name__}.{_MODULES[kind]}"), self._name, {}
        )
        return lowerings


LOWERINGS: Lowerings = _Table("LOWERINGS")

#: Operations that only compilers with kernels for procedures and strings support, as the CPU
#: driver's.
PROCEDURAL = frozenset(
    (
        OperationType.DETECTION_POSTPROCESSING,
        OperationType.LSH_PROJECTION,
        OperationType.RANDOM_MULTINOMIAL,
        OperationType.TFLITE_DETECTION_POSTPROCESS,
        OperationType.TFLITE_HASHTABLE_FIND,
        OperationType.TFLITE_MULTINOMIAL,
        OperationType.TFLITE_NON_MAX_SUPPRESSION_V4,
        OperationType.TFLITE_NON_MAX_SUPPRESSION_V5,
    )
)

#: Operations whose number of results follows from data. OpenCL kernels have no such results.
BOUNDED_LOWERINGS: BoundedLowerings = _Table("BOUNDED_LOWERINGS")
