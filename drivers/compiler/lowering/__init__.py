"""What the operations compute, for compilers: one family a file, named as the family in `neurald.hal.operations`.

`LOWERINGS` is the table of all of them. A family is imported when one of its operations is asked for: models have few.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module

from neurald.drivers.compiler.lowering.machinery.table import Lowering, Lowerings
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations import FAMILIES

#: Families whose operations are lowered together with those of another one.
_TOGETHER: Mapping[str, str] = {
    "convolution.depthwise_convolution": "convolution.convolution",
    "convolution.grouped_convolution": "convolution.convolution",
    "tflite.hash_table": "tflite.movement.gathering",
}
#: Families of which nothing is lowered.
_LEFT_OUT = frozenset(
    (
        "control_flow",
        "detection.detection",
        "random",
        "tflite.detection.detection",
        "tflite.random",
        "tflite.detection.suppression",
        "tflite.text",
    )
)
_HOMES = {
    kind: _TOGETHER.get(family, family)
    for family, kinds in FAMILIES.items()
    if family not in _LEFT_OUT
    for kind in kinds
}


class _Table(Mapping[OperationType, Lowering]):
    """The lowerings of all families. Some operations of a family may have none."""

    def __getitem__(self, kind: OperationType) -> Lowering:
        return self._family(kind)[kind]

    def __iter__(self) -> Iterator[OperationType]:
        return (kind for kind in _HOMES if kind in self._family(kind))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _family(self, kind: OperationType) -> Lowerings:
        lowerings: Lowerings = import_module(f"{__name__}.{_HOMES[kind]}").LOWERINGS
        return lowerings


LOWERINGS: Lowerings = _Table()
