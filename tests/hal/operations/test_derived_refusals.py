"""Calls that do not match an operation's signature are refused by validation, builder and daemon.

For each operation, form and row of types there is a call that its signature accepts. Each test case
changes one thing: the number of arguments, a type, a rank, a scale, a zero point, or an argument
that must not be omitted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pytest
from support.daemon.processes import running_daemon
from support.tiers import Tier, current_tier, spread

import neurald as nd
from neurald.hal.device import Device
from neurald.hal.errors import BadData
from neurald.hal.model.graph import ChannelQuant, Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.types import Lifetime, OperandType, byte_size
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import MAX_RANK, Form, Parameter, Row
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import validate_model

_PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL


@dataclass(frozen=True)
class Case:
    """A call, by the operands of its inputs and outputs, in that order."""

    name: str
    type: OperationType
    operands: tuple[Operand, ...]
    inputs: int

    def operation(self) -> Operation:
        return Operation(
            type=self.type,
            inputs=tuple(range(self.inputs)),
            outputs=tuple(range(self.inputs, len(self.operands))),
        )

    def model(self) -> Model:
        """Returns a model with the call as its only operation; all its tensors are graph inputs."""
        operands = [
            operand if operand.lifetime is not Lifetime.TEMPORARY_VARIABLE else _entering(operand)
            for operand in self.operands[: self.inputs]
        ]
        outputs = [replace(o, lifetime=Lifetime.SUBGRAPH_OUTPUT) for o in self.operands[self.inputs :]]
        graph = Subgraph(
            operands=(*operands, *outputs),
            operations=(self.operation(),),
            inputs=tuple(n for n, o in enumerate(operands) if o.lifetime is Lifetime.SUBGRAPH_INPUT),
            outputs=tuple(range(self.inputs, len(self.operands))),
        )
        return Model(main=graph, referenced=(graph,))


def _entering(operand: Operand) -> Operand:
    if operand.type is OperandType.MODEL:
        return replace(operand, lifetime=Lifetime.SUBGRAPH, subgraph=0)
    if operand.type.is_tensor:
        return replace(operand, lifetime=Lifetime.SUBGRAPH_INPUT)
    value = bytes(byte_size(operand.type, ()))
    return replace(operand, lifetime=Lifetime.CONSTANT_COPY, value=value)


def _operand(operand_type: OperandType, rank: int) -> Operand:
    if not operand_type.is_tensor:
        return Operand(type=operand_type)
    if operand_type is _PER_CHANNEL:
        quant = ChannelQuant(dimension=0, scales=(0.5,))
        return Operand(type=operand_type, dimensions=(1,) * max(rank, 1), channel_quant=quant)
    scale = 0.5 if operand_type in QUANTIZED else 0.0
    return Operand(type=operand_type, dimensions=(1,) * rank, scale=scale)


def _call(parameters: Sequence[Parameter], row: Row) -> list[Operand]:
    return [_operand(min(parameter.allowed(row.types)), parameter.ranks[0]) for parameter in parameters]


def baselines() -> Iterator[tuple[Case, Definition, Form, Row]]:
    for definition in DEFINITIONS.values():
        # DENSIFY has a form for every number of levels; the first and the last represent all.
        forms = (
            definition.forms if len(definition.forms) <= 8 else definition.forms[:: len(definition.forms) - 1]
        )
        for position, form in enumerate(forms):
            for row in definition.rows:
                inputs = form.inputs[: max(form.input_counts())]
                if not all(parameter.allowed(row.types) for parameter in (*inputs, *form.outputs)):
                    continue  # The row is for other forms.
                operands = (*_call(inputs, row), *_call(form.outputs, row))
                types = "-".join(sorted({t.name for t in row.types.values()}))
                name = f"{definition.type.name}/{position}/{types}"
                yield Case(name, definition.type, operands, len(inputs)), definition, form, row


def changed(case: Case, index: int, operand: Operand) -> Case:
    return replace(case, operands=(*case.operands[:index], operand, *case.operands[index + 1 :]))


def mutations() -> Iterator[tuple[str, Case]]:
    """Yields calls with one mistake that no form and row of the operation accepts."""
    seen: set[tuple[object, ...]] = set()
    for case, definition, form, _ in baselines():
        parameters = (*form.inputs[: case.inputs], *form.outputs)
        variadic = any(p.variadic for f in definition.forms for p in (*f.inputs, *f.outputs))
        candidates: list[tuple[str, Case]] = []
        if not variadic:
            most = max(max(f.input_counts()) for f in definition.forms)
            extra = (case.operands[0],) * (most + 1 - case.inputs)
            longer = (*case.operands[: case.inputs], *extra, *case.operands[case.inputs :])
            candidates.append(("one input more", replace(case, operands=longer, inputs=most + 1)))
            candidates.append(("no input", replace(case, operands=case.operands[case.inputs :], inputs=0)))
            candidates.append(("no output", replace(case, operands=case.operands[: case.inputs])))
        for index, parameter in enumerate(parameters):
            operand = case.operands[index]
            is_input = index < case.inputs
            where = f"{parameter.name}"
            taken = _taken(definition, index, case.inputs)
            wrong = next((t for t in OperandType if t not in taken), None)
            if wrong is not None:
                candidates.append(
                    (f"{where}: wrong type", changed(case, index, _operand(wrong, parameter.ranks[0])))
                )
            if operand.type.is_tensor and all(
                p.ranks[1] < MAX_RANK for p in _at(definition, index, case.inputs)
            ):
                most_rank = max(p.ranks[1] for p in _at(definition, index, case.inputs))
                candidates.append(
                    (f"{where}: rank too high", changed(case, index, _operand(operand.type, most_rank + 1)))
                )
            if operand.type in QUANTIZED and operand.type is not _PER_CHANNEL:
                candidates.append((f"{where}: scale 0", changed(case, index, replace(operand, scale=0.0))))
                candidates.append(
                    (f"{where}: zero point", changed(case, index, replace(operand, zero_point=70000)))
                )
            if is_input and not any(p.optional for p in _at(definition, index, case.inputs)):
                omitted = replace(operand, lifetime=Lifetime.NO_VALUE)
                candidates.append((f"{where}: omitted", changed(case, index, omitted)))
        for what, mutated in candidates:
            key = (mutated.type, mutated.inputs, mutated.operands)
            if key not in seen:
                seen.add(key)
                yield f"{case.name}: {what}", mutated


def _at(definition: Definition, index: int, inputs: int) -> list[Parameter]:
    """Returns the parameters at that position of all forms with that number of inputs."""
    found: list[Parameter] = []
    for form in definition.forms:
        parameters = form.inputs if index < inputs else form.outputs
        parameter_index = index if index < inputs else index - inputs
        if any(p.variadic for p in parameters):
            found += parameters
        elif parameter_index < len(parameters):
            found.append(parameters[parameter_index])
    return found


def _taken(definition: Definition, index: int, inputs: int) -> set[OperandType]:
    return {
        operand_type
        for parameter in _at(definition, index, inputs)
        for row in definition.rows
        for operand_type in parameter.allowed(row.types)
    }


@cache
def all_mutations() -> list[tuple[str, Case]]:
    return list(mutations())


def one_of_each_kind() -> list[tuple[str, Case]]:
    """Returns a call of each operation with each kind of mistake; in tier `full`, all calls."""
    if current_tier() is Tier.FULL:
        return all_mutations()
    kinds: dict[tuple[OperationType, str], tuple[str, Case]] = {}
    for what, case in all_mutations():
        kinds.setdefault((case.type, what.rpartition(": ")[2]), (what, case))
    return list(kinds.values())


def test_every_form_accepts_its_own_call() -> None:
    for case, definition, _, _ in baselines():
        definition.bind(case.operation(), case.operands, values_known=False)


def test_every_operation_has_mutations() -> None:
    assert {case.type for _, case in all_mutations()} == set(DEFINITIONS)


def test_validation_refuses_mismatches() -> None:
    cases = [*one_of_each_kind(), *spread(4000, all_mutations())]
    assert not [what for what, case in cases if not _refused(validate_model, case.model())]


def _refused(call: Callable[..., object], *arguments: object) -> bool:
    """Returns True if a call raises BadData; other errors are passed on."""
    try:
        call(*arguments)
    except BadData:
        return True
    return False


def build(case: Case) -> None:
    """Builds the call with the client library."""
    builder = nd.ModelBuilder()
    for operand in case.operands:
        quant = operand.channel_quant
        index = builder.add_operand(
            operand.type,
            operand.dimensions or (),
            scale=operand.scale,
            zero_point=operand.zero_point,
            channel_quant=None if quant is None else (quant.dimension, quant.scales),
        )
        if operand.lifetime is Lifetime.NO_VALUE:
            builder.set_operand_value(index, None)
    operation = case.operation()
    builder.add_operation(operation.type, operation.inputs, operation.outputs)


def test_the_builder_refuses_mismatches() -> None:
    assert not [what for what, case in one_of_each_kind() if not _refused(build, case)]


@pytest.fixture(scope="module")
def remote() -> Iterator[Device]:
    with running_daemon(driver="cpu") as address:
        yield nd.connect(address)


@pytest.mark.full
def test_a_daemon_refuses_mismatches(remote: Device) -> None:
    ask = remote.supported_operations
    assert not [what for what, case in one_of_each_kind() if not _refused(ask, case.model())]
