"""Operations of vendor extensions, of which only the operands are known.

Their devices check signature, values and shapes. A shape that the model leaves open is known once
the device reports it.
"""

from collections.abc import Sequence

from neurald.hal.errors import BadData
from neurald.hal.model.extension import extension_of
from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS as _BUILT_IN
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Binding, Form, Parameter, Row


def _values(name: str) -> Parameter:
    return Parameter(name=name, types="ANY", ranks=ANY_RANK, optional=True, variadic=True)


_FORM = Form(inputs=(_values("inputs"),), outputs=(_values("outputs"),))
#: The only row, whose level is that with which Android introduced extensions.
_ROW = Row(level=FeatureLevel.LEVEL_3, types={})


class _VendorDefinition(Definition, frozen=True, kw_only=True):
    """The definition of a vendor's operation, which accepts any operands except models."""

    def bind(
        self, operation: Operation, operands: Sequence[Operand], *, values_known: bool = True
    ) -> Binding:
        """Binds all operands to two names: `inputs` and `outputs`.

        Raises:
            BadData: the operation has no outputs, or an operand is a model.
        """
        if not operation.outputs:
            raise BadData(f"{self.type.name} has no outputs; at least one is expected")
        if any(
            operands[index].type is OperandType.MODEL for index in (*operation.inputs, *operation.outputs)
        ):
            raise BadData(
                f"an operation of a vendor's extension takes no model; {self.type.name} is given one"
            )
        return Binding(
            type=operation.type,
            form=_FORM,
            row=_ROW,
            level=_ROW.level,
            inputs={"inputs": operation.inputs} if operation.inputs else {},
            outputs={"outputs": operation.outputs},
        )


def _shape(call: Call) -> tuple[Shape, ...]:
    raise UnknownValue(f"the shapes of {call.binding.type.name}")


def _reference(call: Call) -> tuple[Array, ...]:
    raise BadData(f"{call.binding.type.name} has no reference; only devices with its extension run it")


def definition_of(kind: OperationType) -> Definition | None:
    """Returns the definition of an operation, built-in or a vendor's.

    None if it is not implemented.
    """
    known: Definition | None = _BUILT_IN.get(kind)
    if known is None and extension_of(kind) is not None:
        return _VendorDefinition(type=kind, forms=(_FORM,), rows=(_ROW,), shape=_shape, reference=_reference)
    return known
