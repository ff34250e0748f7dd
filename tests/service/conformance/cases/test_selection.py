"""The selection of cases that run by default."""

from support.devices.faulty import create_adding_one

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.service.conformance.cases.case import CaseSignature, signatures
from neurald.service.conformance.cases.selection import ALL_CASES, default_selection
from neurald.service.conformance.cases.variation import base_case, neighbours, structural_cases
from neurald.service.conformance.guard.run import DisabledGuardRunner
from neurald.service.conformance.operation_check import OperationCheck
from neurald.service.conformance.suite import Plan, run


def _of(operation: OperationType, kind: OperandType) -> CaseSignature:
    return next(
        each
        for each in signatures((operation,))
        if kind in each.definition.rows[each.row].types.values() and each.form == 0
    )


def test_one_row_of_each_kind_runs_all_cases() -> None:
    for operation in (OperationType.ADD, OperationType.CONV_2D, OperationType.SOFTMAX):
        for kind in (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_QUANT8_ASYMM):
            assert default_selection(_of(operation, kind)) == ALL_CASES
        assert default_selection(_of(operation, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)).every > 1


def test_every_android_operation_has_a_row_that_runs_all_cases() -> None:
    full = {each.definition.type for each in signatures() if default_selection(each) == ALL_CASES}
    drawn = {each.definition.type for each in signatures()}
    assert {each for each in drawn if not each.name.startswith("TFLITE_")} <= full


def test_every_extension_operation_has_a_family() -> None:
    with_family = {each.definition.type for each in signatures() if default_selection(each).has_family}
    assert {each.definition.type for each in signatures()} == with_family


def test_selected_cases_are_a_subset_of_all_cases() -> None:
    signature = _of(OperationType.CONV_2D, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)
    selection = default_selection(signature)
    first = base_case(signature)
    assert first is not None
    for some, every in (
        (structural_cases(signature, selection), structural_cases(signature)),
        (neighbours(first, selection), neighbours(first)),
    ):
        chosen, known = ([case.label for case in cases] for cases in (some, every))
        assert set(chosen) < set(known)
        assert len(chosen) >= len(known) // (selection.every + 1)


def test_thorough_runs_all_cases() -> None:
    signature = _of(OperationType.FLOOR, OperandType.TENSOR_FLOAT16)
    assert default_selection(signature) != ALL_CASES
    device = create_adding_one()
    counts = [
        len(
            list(
                OperationCheck(device, DisabledGuardRunner(""), is_thorough=is_thorough).check(
                    signature, range(0)
                )
            )
        )
        for is_thorough in (False, True)
    ]
    assert 0 < counts[0] < counts[1]


def test_a_case_that_does_not_run_by_default_can_be_requested() -> None:
    identifier = f"{_of(OperationType.FLOOR, OperandType.TENSOR_FLOAT16).identifier}:long"
    plan = Plan(operations=(OperationType.FLOOR,), case=identifier)
    assert [result.case for result in run(create_adding_one(), plan)] == [identifier]
