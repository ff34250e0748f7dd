"""Signatures of operations as data: forms and the types they support.

An operation has one or more forms (explicit and implicit padding, for example). A form lists its
inputs and outputs in order. The type of each is either fixed or a variable such as "T", and every
row of the operation's table binds all variables at once. Matching an operation of a model against
the signature gives a `Binding`, from which shape rule and reference read their arguments by name.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import force_setattr

from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, Lifetime, OperandType

#: Maximum rank of any operand. Android NN sets no limit, and its conformance tests use up to 10.
MAX_RANK = 16
#: The ranks of a tensor without restriction.
ANY_RANK = (0, MAX_RANK)
#: Forms and operations keep what they have found for at most this many operands, and operations for
#: at most this many combinations of operands.
_MAX_KEPT_OPERANDS = 32
_MAX_KEPT_MATCHES = 1024

ScalarValue = int | float | bool
TypeRow = Mapping[str, OperandType]


class Parameter(Struct, frozen=True, kw_only=True):
    """One input or output of a form.

    Attributes:
        types: the name of a type variable, or the types that are accepted regardless of the row.
        ranks: lowest and highest rank of a tensor; ignored for scalars.
        optional: it may be omitted (an operand of lifetime NO_VALUE).
        default: value of a trailing scalar that the operation omits.
        constant: its value must be part of the model.
        level: the first feature level that has this parameter.
        variadic: it takes one or more operands; if it is optional too, also none.
    """

    name: str
    types: str | frozenset[OperandType]
    ranks: tuple[int, int] = (1, MAX_RANK)
    optional: bool = False
    default: ScalarValue | None = None
    constant: bool = False
    level: FeatureLevel = FeatureLevel.LEVEL_1
    variadic: bool = False

    def allowed(self, row: TypeRow) -> frozenset[OperandType]:
        """Returns the operand types accepted in that row.

        Empty if the row does not bind the variable.
        """
        if not isinstance(self.types, str):
            return self.types
        return frozenset((row[self.types],) if self.types in row else ())


def tensor(
    name: str,
    types: str | OperandType = "T",
    *,
    rank: int | tuple[int, int] = (1, MAX_RANK),
    optional: bool = False,
    constant: bool = False,
    variadic: bool = False,
) -> Parameter:
    """Creates a tensor parameter; `rank` is one rank or the lowest and highest."""
    return Parameter(
        name=name,
        types=types if isinstance(types, str) else frozenset((types,)),
        ranks=(rank, rank) if isinstance(rank, int) else rank,
        optional=optional,
        constant=constant,
        variadic=variadic,
    )


def scalar(
    name: str,
    types: str | OperandType = OperandType.INT32,
    *,
    default: ScalarValue | None = None,
    level: FeatureLevel = FeatureLevel.LEVEL_1,
    constant: bool = False,
) -> Parameter:
    """Creates a scalar parameter; one with a `default` may be omitted at the end."""
    return Parameter(
        name=name,
        types=types if isinstance(types, str) else frozenset((types,)),
        default=default,
        level=level,
        constant=constant,
    )


def layout(level: FeatureLevel = FeatureLevel.LEVEL_3) -> Parameter:
    """Creates the trailing flag that selects NCHW instead of NHWC."""
    return scalar("nchw", OperandType.BOOL, default=False, level=level)


class Row(Struct, frozen=True, kw_only=True):
    """Operand types that are valid together, and the first feature level that accepts them.

    Attributes:
        zero_points16: whether TENSOR_QUANT16_SYMM may have a zero point, as TFLite's int16 tensors
            may for some operators.
    """

    level: FeatureLevel
    types: TypeRow
    zero_points16: bool = False


def row(level: FeatureLevel, *, zero_points16: bool = False, **types: OperandType) -> Row:
    """Creates a row of a type table: `row(LEVEL_1, T=TENSOR_FLOAT32)`; see `Row`."""
    return Row(level=level, types=types, zero_points16=zero_points16)


class _Assignment(Struct, frozen=True, kw_only=True):
    """The parameters that a form assigns to this many operands.

    Attributes:
        parameters: the parameter of each input and output.
        inputs, outputs: the positions of each parameter's operands among both, by name.
        level: the first feature level that has the form and these inputs.
    """

    parameters: tuple[Parameter, ...]
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    level: FeatureLevel


class Form(Struct, frozen=True, kw_only=True, eq=False):
    """One form of an operation's arguments.

    Attributes:
        counts: the allowed numbers of inputs; empty for any from the last parameter without default
            on.
        level: the first feature level that has this form.
        inputs_by_name: `inputs` by name.
    """

    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    counts: tuple[int, ...] = ()
    level: FeatureLevel = FeatureLevel.LEVEL_1
    inputs_by_name: Mapping[str, Parameter] = field(default_factory=dict)
    _assignments: dict[tuple[int, int], _Assignment | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A copy with other parameters gets caches of its own.
        force_setattr(self, "inputs_by_name", {each.name: each for each in self.inputs})
        force_setattr(self, "_assignments", {})

    def input_counts(self) -> tuple[int, ...]:
        """Returns the allowed numbers of inputs; of a variadic form only the smallest."""
        if self.counts:
            return self.counts
        least = sum(parameter.default is None for parameter in self.inputs)
        return tuple(range(least, len(self.inputs) + 1))

    def takes(self, inputs: int, outputs: int) -> bool:
        """Returns True if the form allows that many inputs and outputs."""
        least, takes_more = _least_operands(self.inputs)
        if not (inputs >= least if takes_more else inputs in self.input_counts()):
            return False
        least, takes_more = _least_operands(self.outputs)
        return outputs >= least if takes_more else outputs == least

    def assignment(self, inputs: int, outputs: int) -> _Assignment | None:
        """Assigns parameters to that many inputs and outputs; None if it does not allow them."""
        key = inputs, outputs
        if key in self._assignments:
            return self._assignments[key]
        found = self._new_assignment(inputs, outputs) if self.takes(inputs, outputs) else None
        if inputs + outputs <= _MAX_KEPT_OPERANDS:
            self._assignments[key] = found
        return found

    def _new_assignment(self, inputs: int, outputs: int) -> _Assignment:
        parameters: list[Parameter] = []
        before = _assign(self.inputs, 0, inputs, parameters)
        level = max([self.level, *[parameter.level for parameter in parameters]])
        after = _assign(self.outputs, inputs, outputs, parameters)
        return _Assignment(parameters=tuple(parameters), inputs=before, outputs=after, level=level)


class Match(Struct, frozen=True, kw_only=True):
    """Form and row that fit operands of certain types, ranks and lifetimes.

    Attributes:
        level: the feature level that a device needs for them.
        forbids_zero_points: whether there are operands of TENSOR_QUANT16_SYMM that must not have
            zero points.
        inputs, outputs: parameter name → positions among the operands, inputs first.
    """

    form: Form
    row: Row
    level: FeatureLevel
    forbids_zero_points: bool
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]


#: The properties of an operation that decide which form it matches: its number of inputs, whether
#: values are known, and type, rank and lifetime of each operand; see `_LIKE`.
MatchKey = tuple[int, bool, tuple[tuple[OperandType, int, Lifetime], ...]]


#: A lifetime of which forms demand the same, for each lifetime.
_LIKE = {
    Lifetime.TEMPORARY_VARIABLE: Lifetime.TEMPORARY_VARIABLE,
    Lifetime.SUBGRAPH_INPUT: Lifetime.TEMPORARY_VARIABLE,
    Lifetime.SUBGRAPH_OUTPUT: Lifetime.TEMPORARY_VARIABLE,
    Lifetime.SUBGRAPH: Lifetime.TEMPORARY_VARIABLE,
    Lifetime.CONSTANT_COPY: Lifetime.CONSTANT_COPY,
    Lifetime.CONSTANT_POOL: Lifetime.CONSTANT_COPY,
    Lifetime.NO_VALUE: Lifetime.NO_VALUE,
}


class Binding(Struct, frozen=True, kw_only=True):
    """An operation of a model matched to its signature.

    Attributes:
        level: the feature level that a device needs for this form with these types. Scales and
            ranks may need a higher one, see `Definition.level_of`.
        inputs, outputs: operand indexes by parameter name; several only for variadic parameters.
        forbids_zero_points: see `Match`.
    """

    type: OperationType
    form: Form
    row: Row
    level: FeatureLevel
    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]
    forbids_zero_points: bool = False


def bound(
    operation: Operation,
    operands: Sequence[Operand],
    forms: Sequence[Form],
    rows: Sequence[Row],
    *,
    values_known: bool = True,
    known: dict[MatchKey, Match | None] | None = None,
) -> Binding | None:
    """Matches an operation against its forms and type rows.

    Args:
        operation: the operation.
        operands: the operands of its graph.
        forms, rows: the operation's signature.
        values_known: False if operands without a value may still become constants.
        known: what was found for this signature before, None for no match; what is new is added.

    Returns:
        None if nothing matches; `signature_mismatch` says why.
    """
    match = _known_match(operation, operands, forms, rows, values_known, known)
    if match is None:
        return None
    indexes = operation.inputs + operation.outputs
    return Binding(
        type=operation.type,
        form=match.form,
        row=match.row,
        level=match.level,
        inputs=_at(match.inputs, indexes),
        outputs=_at(match.outputs, indexes),
        forbids_zero_points=match.forbids_zero_points,
    )


def _known_match(
    operation: Operation,
    operands: Sequence[Operand],
    forms: Sequence[Form],
    rows: Sequence[Row],
    values_known: bool,
    known: dict[MatchKey, Match | None] | None,
) -> Match | None:
    """Returns the match of an operation, which is looked for once for all operations like it."""
    indexes = operation.inputs + operation.outputs
    facts = []
    for index in indexes:
        operand = operands[index]
        dimensions = operand.dimensions
        rank = -1 if dimensions is None else len(dimensions)
        facts.append((operand.type, rank, _LIKE[operand.lifetime]))
    key = len(operation.inputs), values_known, tuple(facts)
    match = None
    if known is not None:
        if key in known:
            return known[key]
        match = _match_of_open_results(key, known)
    if match is None:
        match = _match(operation, indexes, operands, forms, rows, values_known)
    if known is not None and len(indexes) <= _MAX_KEPT_OPERANDS:
        if len(known) >= _MAX_KEPT_MATCHES:
            known.clear()
        known[key] = match
    return match


def _match_of_open_results(key: MatchKey, known: Mapping[MatchKey, Match | None]) -> Match | None:
    """Returns what was found for an operation before the ranks of its results were known.

    Args:
        key: the properties of the operation.
        known: what was found before.

    Returns:
        None if nothing was, or if the results have other ranks than that form.
    """
    inputs, values_known, facts = key
    is_open = [(kind, -1, lifetime) for kind, _, lifetime in facts[inputs:]]
    match = known.get((inputs, values_known, (*facts[:inputs], *is_open)))
    if match is None:
        return None
    ranks = {parameter.name: parameter.ranks for parameter in match.form.outputs}
    for name, places in match.outputs:
        low, high = ranks[name]
        for place in places:
            kind, rank, _ = facts[place]
            if rank >= 0 and not low <= rank <= high and kind.is_tensor:
                return None
    return match


def _at(
    positions: Sequence[tuple[str, tuple[int, ...]]], indexes: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """Returns the operand indexes at the positions of each parameter."""
    found = {}
    # Each operation does this twice, and in Python a comprehension is a call.
    for name, places in positions:
        found[name] = (indexes[places[0]],) if len(places) == 1 else tuple([indexes[each] for each in places])
    return found


def _match(
    operation: Operation,
    indexes: Sequence[int],
    operands: Sequence[Operand],
    forms: Sequence[Form],
    rows: Sequence[Row],
    values_known: bool,
) -> Match | None:
    """Finds the form and row that fit an operation's operands; see `bound`."""
    for form in forms:
        assignment = form.assignment(len(operation.inputs), len(operation.outputs))
        if assignment is None:
            continue
        needed = _needed(assignment.parameters, indexes, operands, values_known)
        if needed is None:
            continue
        bound_types = needed.items()
        for candidate in rows:
            if bound_types <= candidate.types.items():
                return _found(operation, form, candidate, assignment, operands)
    return None


def _least_operands(parameters: Sequence[Parameter]) -> tuple[int, bool]:
    """Returns how many operands parameters without defaults take, and whether they take more."""
    least, takes_more = len(parameters), False
    for parameter in parameters:
        if parameter.variadic:
            takes_more = True
            least -= parameter.optional
    return least, takes_more


def _assign(
    parameters: Sequence[Parameter], first: int, count: int, assigned: list[Parameter]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Returns the positions of each parameter's operands; a variadic one takes all surplus ones.

    Args:
        parameters: the inputs or outputs of a form.
        first: the position of their first operand.
        count: the number of their operands.
        assigned: the parameter of each operand is added to it.
    """
    surplus, position, end = count - len(parameters), first, first + count
    found: list[tuple[str, tuple[int, ...]]] = []
    for parameter in parameters:
        after = position + 1 + surplus if parameter.variadic else position + 1
        if position < after <= end:
            found.append((parameter.name, tuple(range(position, after))))
            assigned += [parameter] * (after - position)
        position = after
    return tuple(found)


def _needed(
    parameters: Sequence[Parameter],
    indexes: Sequence[int],
    operands: Sequence[Operand],
    values_known: bool,
) -> dict[str, OperandType] | None:
    """Returns the types that a row must bind to variables so that all parameters match.

    None if impossible.

    Agrees with `signature_mismatch`, which has the messages.
    """
    needed: dict[str, OperandType] = {}
    for parameter, index in zip(parameters, indexes, strict=True):
        operand = operands[index]
        if operand.lifetime is Lifetime.NO_VALUE:
            if not parameter.optional:
                return None
            continue
        found, types = operand.type, parameter.types
        if isinstance(types, str):
            if needed.setdefault(types, found) != found:
                return None
        elif found not in types:
            return None
        dimensions = operand.dimensions
        if dimensions is not None:
            low, high = parameter.ranks
            if not low <= len(dimensions) <= high and found.is_tensor:
                return None
        if parameter.constant and values_known and not operand.lifetime.is_constant:
            return None
    return needed


def _found(
    operation: Operation, form: Form, row: Row, assignment: _Assignment, operands: Sequence[Operand]
) -> Match:
    level = max(assignment.level, row.level)
    for index in operation.inputs:
        if operands[index].dimensions is None and operands[index].type.is_tensor:
            level = max(level, FeatureLevel.LEVEL_3)
    types = [operands[index].type for index in operation.inputs + operation.outputs]
    return Match(
        form=form,
        row=row,
        level=level,
        forbids_zero_points=not row.zero_points16 and OperandType.TENSOR_QUANT16_SYMM in types,
        inputs=assignment.inputs,
        outputs=assignment.outputs,
    )
