"""Mutants still apply, and the runner tells killed ones from survivors."""

import re
from pathlib import Path

import pytest
from mutation import run
from mutation.mutant import Mutant, apply, defects
from mutation.mutants import MUTANTS


@pytest.mark.quick
def test_every_mutant_applies_and_its_tests_exist() -> None:
    found = {mutant.name: defects(mutant) for mutant in MUTANTS}
    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.quick
def test_mutants_cover_the_layers_and_have_names_of_their_own() -> None:
    assert len(MUTANTS) >= 40
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    layers = {mutant.file.partition("/")[0] for mutant in MUTANTS}
    assert layers == {"hal", "runtime", "drivers"}
    for mutant in MUTANTS:
        assert re.fullmatch(r"[a-z0-9-]+", mutant.name), mutant.name
        assert mutant.breaks.endswith("."), mutant.name


def _repository(root: Path, tests: str) -> Mutant:
    """Writes a source file and its test file; returns a mutant of it."""
    (root / "hal").mkdir(parents=True)
    (root / "hal/limit.py").write_text("def fits(count: int) -> bool:\n    return count <= 3\n")
    (root / "test_limit.py").write_text(f"import sys\nsys.path.insert(0, 'hal')\nimport limit\n{tests}")
    return Mutant(
        name="limit",
        file="hal/limit.py",
        text="count <= 3",
        replacement="count < 3",
        breaks="The last element does not fit.",
        tests=("test_limit.py",),
    )


def test_a_mutant_is_killed_by_a_failing_test_and_its_file_restored(tmp_path: Path) -> None:
    mutant = _repository(tmp_path, "def test_last(): assert limit.fits(3)\n")
    before = (tmp_path / mutant.file).read_text()
    outcome = run.outcome_of(mutant, tmp_path)
    assert (outcome.status, "test_last" in outcome.detail) == ("killed", True), outcome
    assert (tmp_path / mutant.file).read_text() == before


def test_a_mutant_survives_passing_tests(tmp_path: Path) -> None:
    mutant = _repository(tmp_path, "def test_first(): assert limit.fits(1)\n")
    assert run.outcome_of(mutant, tmp_path).status == "survived"


def test_tests_that_are_all_skipped_find_nothing(tmp_path: Path) -> None:
    skipped = "import pytest\n@pytest.mark.skip\ndef test_last(): assert limit.fits(3)\n"
    assert run.outcome_of(_repository(tmp_path, skipped), tmp_path).status == "skipped"


def test_a_mutant_that_does_not_apply_is_invalid(tmp_path: Path) -> None:
    mutant = _repository(tmp_path, "def test_first(): assert limit.fits(1)\n")
    (tmp_path / mutant.file).write_text("def fits(count): return count <= 3 or count <= 3\n")
    outcome = run.outcome_of(mutant, tmp_path)
    assert outcome.status == "invalid"
    assert "occurs 2 times" in outcome.detail
    with pytest.raises(ValueError, match="occurs 2 times"):
        apply(mutant, tmp_path)
