"""Says why operands do not match the signature of an operation."""

from collections.abc import Sequence

from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.numbering import operand_name
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations.machinery.signature import Form, Parameter, Row, TypeRow
from neurald.hal.wording import inputs_and_outputs, listed


def closest_mismatch(
    operation: Operation,
    operands: Sequence[Operand],
    forms: Sequence[Form],
    rows: Sequence[Row],
    *,
    values_known: bool,
) -> str:
    """Returns why no form and row fits an operation's operands, in the closest form.

    Args:
        operation, operands, forms, rows, values_known: see `signature.bound`.

    Returns:
        The first mismatched operand, and what was expected.
    """
    name, indexes = operation.type.name, operation.inputs + operation.outputs
    assignments = [
        assignment
        for form in forms
        if (assignment := form.assignment(len(operation.inputs), len(operation.outputs))) is not None
    ]
    if not assignments:
        return _wrong_count(operation, forms)
    closest = ((-1, -1), "")
    for assignment in assignments:
        pairs = list(zip(assignment.parameters, indexes, strict=True))
        for candidate in rows:
            problem = _mismatch(pairs, operands, candidate.types, name, rows, values_known)
            closest = max(closest, problem, key=lambda pair: pair[0])
    return closest[1]


def _mismatch(
    pairs: Sequence[tuple[Parameter, int]],
    operands: Sequence[Operand],
    types: TypeRow,
    name: str,
    rows: Sequence[Row],
    values_known: bool,
) -> tuple[tuple[int, int], str]:
    """Returns how many parameters match, how many of these are in front, and the first mismatch."""
    problems = [_problem(*pair, operands, types, name, rows, values_known) for pair in pairs]
    first = next((position for position, problem in enumerate(problems) if problem), len(pairs))
    return (problems.count(""), first), problems[first] if first < len(pairs) else ""


def _problem(
    parameter: Parameter,
    index: int,
    operands: Sequence[Operand],
    types: TypeRow,
    name: str,
    rows: Sequence[Row],
    values_known: bool,
) -> str:
    """Returns why an operand does not match a parameter; empty if it does."""
    operand = operands[index]
    where = f"{operand_name(operands, index)} ({parameter.name} of {name})"
    if operand.lifetime is Lifetime.NO_VALUE:
        return "" if parameter.optional else f"{where} is omitted; it is not optional"
    if operand.type not in parameter.allowed(types):
        expected = frozenset[OperandType]().union(*(parameter.allowed(r.types) for r in rows))
        if operand.type in expected:
            fitting = _type_names(parameter.allowed(types))
            wanted = f"{fitting} is expected with the types of the other operands"
        else:
            wanted = f"{_type_names(expected)} is expected"
        return f"{where} has type {operand.type.name}; {wanted}"
    low, high = parameter.ranks
    if operand.type.is_tensor and operand.dimensions is not None:
        rank = len(operand.dimensions)
        if not low <= rank <= high:
            ranks = f"rank {low}" if low == high else f"a rank from {low} to {high}"
            return f"{where} has rank {rank}; {ranks} is expected"
    if parameter.constant and values_known and not operand.lifetime.is_constant:
        return f"{where} is not a constant; it must be one"
    return ""


def _type_names(types: frozenset[OperandType]) -> str:
    return " or ".join(t.name for t in sorted(types))


def _wrong_count(operation: Operation, forms: Sequence[Form]) -> str:
    allowed = sorted({count for form in forms for count in form.input_counts()})
    more = " or more" if any(p.variadic for form in forms for p in form.inputs) else ""
    outputs = sorted({len(form.outputs) for form in forms})
    more_out = " or more" if any(p.variadic for form in forms for p in form.outputs) else ""
    has = inputs_and_outputs(len(operation.inputs), len(operation.outputs))
    return (
        f"{operation.type.name} has {has}; {_any_of(allowed, more, 'input')} and "
        f"{_any_of(outputs, more_out, 'output')} are expected"
    )


def _any_of(counts: Sequence[int], more: str, noun: str) -> str:
    is_one = list(counts) == [1] and not more
    return f"{listed([str(count) for count in counts], 'or')}{more} {noun}{'' if is_one else 's'}"
