"""Compares neurald with the recorded sweep, without LiteRT."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from support.sweeps import sweep
from support.tiers import Tier, current_tier
from sweep.form import Form, constant, simple, tensor
from sweep.forms import OPERATORS, forms_of
from sweep.judge import Outcome, difference, judge
from sweep.known import DIFFERENT, REFUSED, Known, known
from sweep.recorded import LETTERS, recorded
from sweep.worker import refusal, run_neurald

from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import Device
from neurald.runtime.tflite.file.schema import OPERATOR_NAMES
from neurald.runtime.tflite.legalization import LEGALIZATIONS

#: One of this many forms is loaded, or also computed by kernels.
_LOADED, _COMPUTED = (16, 1000)
_LOADED_IN_FULL, _COMPUTED_IN_FULL = (1, 40)


def _taken(forms: Sequence[tuple[Form, str]], share: int, share_in_full: int) -> Iterator[tuple[Form, str]]:
    """Yields every n-th form of an operator with its letter."""
    return itertools.islice(forms, 0, None, share_in_full if current_tier() is Tier.FULL else share)


def _with_letters(operator: str) -> list[tuple[Form, str]]:
    forms = forms_of(operator)
    return list(zip(forms, recorded(operator, forms), strict=True))


@sweep("operator", OPERATORS)
def test_models_that_litert_runs_are_loaded(operator: str, tmp_path: Path) -> None:
    for form, letter in _taken(_with_letters(operator), _LOADED, _LOADED_IN_FULL):
        if letter in (LETTERS["agrees"], LETTERS["differs"], LETTERS["more"]):
            assert not refusal(form.case(), tmp_path / "form.tflite"), form.key


def test_names_are_unique() -> None:
    for operator in OPERATORS:
        names = [form.name for form in forms_of(operator)]
        assert len(set(names)) == len(names), operator


def test_every_refusal_has_its_reason(tmp_path: Path) -> None:
    """Every entry of the table must also be used."""
    found: set[Known] = set()
    for operator in OPERATORS:
        for form, letter in _with_letters(operator):
            if letter != LETTERS["refused"]:
                continue
            case = form.case()
            why = refusal(case, tmp_path / "form.tflite")
            why = why or run_neurald(case, ReferenceDevice(), tmp_path / "form.tflite").error
            entry = known(REFUSED, operator, form.name, why)
            assert entry is not None, f"{form.key}: {why or 'it is not refused'}"
            found.add(entry)
    assert found == set(REFUSED)


def test_every_difference_has_its_reason() -> None:
    found: set[Known] = set()
    for operator in OPERATORS:
        for form, letter in _with_letters(operator):
            if letter == LETTERS["differs"]:
                entry = known(DIFFERENT, operator, form.name)
                assert entry is not None, form.key
                found.add(entry)
    assert found == set(DIFFERENT)


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("share", range(8))
def test_references_and_kernels_agree(share: int, tmp_path: Path) -> None:
    reference: Device = ReferenceDevice()
    compiled = CpuDevice()
    for operator in OPERATORS[share::8]:
        for form, letter in _taken(_with_letters(operator), _COMPUTED, _COMPUTED_IN_FULL):
            if letter == LETTERS["agrees"]:
                case = form.case()
                expected = run_neurald(case, reference, tmp_path / "form.tflite")
                found = run_neurald(case, compiled, tmp_path / "form.tflite")
                assert expected.outputs is not None, f"{form.key}: {expected.error}"
                assert found.outputs is not None, f"{form.key}: {found.error}"
                assert not difference(found.outputs, [expected.outputs], form.tolerance), form.key


def test_every_operator_is_swept_or_excluded_with_a_reason() -> None:
    left_out = {
        "ASSIGN_VARIABLE": "READ_VARIABLE's forms have it",
        "CALL_ONCE": "it runs while a file is loaded",
        "CUSTOM": "LiteRT's wheel has few",
        "DENSIFY": "its layouts are tested in tests/runtime/tflite/conversion/test_unpacking.py",
        "HASHTABLE": "tables of strings are tested in tests/runtime/tflite/legalization/test_hash_table.py",
        "HASHTABLE_FIND": "as HASHTABLE",
        "HASHTABLE_IMPORT": "as HASHTABLE",
        "HASHTABLE_SIZE": "as HASHTABLE",
        "MULTINOMIAL": "its results are random",
        "RANDOM_STANDARD_NORMAL": "its results are random",
        "RANDOM_UNIFORM": "its results are random",
        "REDUCE_WINDOW": "no converter writes it",
        "STABLEHLO_CASE": "the schema package does not know it",
        "STABLEHLO_RNG_BIT_GENERATOR": "its results are random",
        "VAR_HANDLE": "READ_VARIABLE's forms have it",
    }
    names = {OPERATOR_NAMES[code] for code in LEGALIZATIONS}
    assert names - set(OPERATORS) == set(left_out)


ONE = np.array([1, 2, 3], np.int8)


@sweep(
    ("litert", "reference", "verdict"),
    [
        ([ONE], ONE, "agrees"),
        ([ONE], ONE + 1, "differs"),
        ([ONE, ONE + 1], ONE + 2, "agrees"),
        ([ONE, ONE + 1], ONE + 3, "differs"),
        ([ONE.reshape(1, 3)], ONE, "differs"),
        ([ONE], None, "refused"),
        ([None], None, "declined"),
        ([None], ONE, "more"),
        ([ONE / 3], ONE / np.float64(3.000001), "agrees"),
        ([ONE / 3], ONE / np.float64(3.1), "differs"),
    ],
)
def test_verdicts(litert: list[np.ndarray | None], reference: np.ndarray | None, verdict: str) -> None:
    def outcome(value: np.ndarray | None) -> Outcome:
        return Outcome(error="no") if value is None else Outcome(outputs=(value,))

    kernels = {str(n): outcome(value) for n, value in enumerate(litert)}
    assert judge(kernels, outcome(reference), None, 1e-5).verdict == verdict
    broken = Outcome(error="KeyError", is_broken=True)
    assert judge(kernels, outcome(reference), broken, 1e-5).verdict == "broken"
    if verdict == "agrees":
        assert judge(kernels, outcome(reference), Outcome(error="no"), 1e-5).verdict == "uncompiled"


def test_a_form_is_the_same_for_the_same_seed() -> None:
    form = simple("ADD", "x", (tensor((2, 3)), constant(2.0, "f32")), (tensor((2, 3)),), "AddOptions")
    assert form.case(1).content == form.case(1).content
    assert (form.case(1).feeds[0] == form.case(1).feeds[0]).all()
    assert (form.case(1).feeds[0] != form.case(2).feeds[0]).any()
