import errno
from pathlib import Path

import pytest
from support.models.chains import chain

from neurald.hal.crashes.pattern import ModelSignatures
from neurald.hal.crashes.wrong_results import WrongResults
from neurald.hal.errors import BadState

MODEL = chain(["ADD", "MUL", "ADD"])
PATTERN = ModelSignatures(chain(["MUL"])).pattern()


@pytest.fixture
def records(tmp_path: Path) -> WrongResults:
    return WrongResults(tmp_path / "state" / "wrong_results.json")


def test_a_pattern_is_refused_to_a_version_of_a_device(records: WrongResults, tmp_path: Path) -> None:
    assert records.refused("gpu", "1", MODEL) == {}
    entry = records.add("gpu", "1", PATTERN, "1 of 64 elements differ\n", "found")
    assert entry.difference == "1 of 64 elements differ "
    assert records.refused("gpu", "1", MODEL) == {1: entry}
    assert records.refused("gpu", "2", MODEL) == {}
    assert records.refused("npu", "1", MODEL) == {}
    assert records.refused("gpu", "1", chain(["ADD"])) == {}
    assert WrongResults(tmp_path / "state" / "wrong_results.json").entries() == (entry,)
    assert f"`neurald forgive gpu {PATTERN.digest}` lets it try again" in entry.reason


def test_long_and_unprintable_texts_are_kept_in_part(records: WrongResults) -> None:
    version = "v\n" + "x" * 1000
    entry = records.add("gpu", version, PATTERN, "d" * 5000, "n" * 5000)
    entry.check()
    assert records.entries() == (entry,)
    assert list(records.refused("gpu", version, MODEL)) == [1]


def test_patterns_are_forgiven(records: WrongResults) -> None:
    assert records.forgive() == ()
    entry = records.add("gpu", "1", PATTERN, "d", "n")
    assert records.forgive(["npu"]) == ()
    assert records.forgive(["gpu"], "zz") == ()
    assert records.forgive([], PATTERN.digest[:4]) == (entry,)
    assert records.entries() == ()


def test_damaged_files_count_as_empty(records: WrongResults, tmp_path: Path) -> None:
    records.add("gpu", "1", PATTERN, "d", "n")
    path = tmp_path / "state" / "wrong_results.json"
    content = path.read_bytes()
    for damaged in (
        b"",
        b"{}",
        content[:-3],
        content.replace(b'"gpu"', b'"\\u0000"'),
        b'{"format":1,"entries":[1]}',
    ):
        path.write_bytes(damaged)
        assert WrongResults(path).entries() == ()
    records.add("gpu", "1", PATTERN, "d", "n")
    assert len(WrongResults(path).entries()) == 1


def test_a_file_that_may_not_be_read_any_more_changes_nothing(
    records: WrongResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a sandbox, this happens when another process has replaced it."""
    entry = records.add("gpu", "1", PATTERN, "d", "n")
    assert records.entries() == (entry,)
    WrongResults(tmp_path / "state" / "wrong_results.json").add("npu", "1", PATTERN, "d", "n")

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("neurald.hal.crashes.record_file.os.open", refuse)
    assert records.entries() == (entry,)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadState, match="cannot be written"):
        WrongResults(tmp_path / "file" / "w.json").add("gpu", "1", PATTERN, "d", "n")
