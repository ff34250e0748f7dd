"""`neurald conformance`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from support.daemon.command_line import error_of, invoke
from support.daemon.processes import python_path, running_daemon


def test_a_good_device() -> None:
    result = invoke("conformance", "--device", "sample-quant", "--operation", "FLOOR", "--count", "0")
    assert result.exit_code == 0, result.stderr
    assert "operations" in result.stdout
    assert "expected 8-bit asymmetric tensors" in result.stdout
    assert "the device declined every case, so nothing is certified" in result.stderr


def test_a_faulty_device() -> None:
    arguments = (
        "conformance",
        "--device",
        "support.devices.faulty:create_adding_one",
        "--operation",
        "FLOOR",
    )
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert "FLOOR form 0, TENSOR_FLOAT32" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 110
    assert "--case FLOOR:0:0:base" in result.stdout
    result = invoke(*arguments, "--json", "--seed", "7")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["device"] == "faulty"
    assert document["counts"]["operations"]["failed"] > 0
    seeds = {found["seed"] for found in document["results"] if found["group"] == "operations"}
    assert seeds == {7, None}, "random cases and those that always run"
    assert not any(row["certified"] for row in document["coverage"])


def test_a_driver_that_ends_the_process_leaves_the_case_behind() -> None:
    command = [sys.executable, "-m", "neurald", "conformance", "--operation", "RELU", "--device"]
    ended = subprocess.run(
        [*command, "support.devices.faulty_drivers:create_ending_its_process"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": python_path()},
    )
    assert ended.returncode == -signal.SIGABRT
    assert "in ends\n" in ended.stderr, "the lines of the driver"
    assert "note: the driver has ended the process in RELU form 0, TENSOR_FLOAT32" in ended.stderr
    case = "--device support.devices.faulty_drivers:create_ending_its_process --case 'RELU:0:0:"
    assert f"to run only this: neurald conformance {case}" in ended.stderr


def test_a_failed_case_is_had_again() -> None:
    result = invoke(
        "conformance",
        "--device",
        "support.devices.faulty:create_adding_one",
        "--case",
        "FLOOR:0:0:rank 2",
        "--json",
    )
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)["results"]
    assert found["label"] == "rank 2"
    assert found["command"].endswith("--case 'FLOOR:0:0:rank 2'")
    assert "there is no case" in error_of("conformance", "--device", "sample-all", "--case", "FLOOR:0:0:x")


def test_a_report(tmp_path: Path) -> None:
    arguments = ("conformance", "--device", "sample-all", "--case", "FLOOR:0:0:long")
    for name in ("report.json", "report.md"):
        assert invoke(*arguments, "--report", tmp_path / name).exit_code == 0
    document = json.loads((tmp_path / "report.json").read_text())
    assert (document["device"], document["driver"]) == ("sample-all", "sample-all")
    assert document["passed"]
    (row,) = document["coverage"]
    assert (row["operation"], row["types"], row["certified"]) == (
        "FLOOR",
        "T TENSOR_FLOAT32, S FLOAT32",
        True,
    )
    text = (tmp_path / "report.md").read_text()
    assert "| FLOOR | 0 | T TENSOR_FLOAT32, S FLOAT32 |" in text
    assert "there is no such folder" in error_of(*arguments, "--report", tmp_path / "none" / "report.md")


def test_guard_pages_are_in_the_report(tmp_path: Path) -> None:
    arguments = ("--device", "support.devices.faulty_drivers:create_reading_past_constants")
    case = ("--case", "CONV_2D:0:0:constant weights", "--report")
    result = invoke("conformance", *arguments, *case, tmp_path / "report.json")
    assert result.exit_code == 1
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["guard_pages"]["cases"] > 0
    assert document["guard_pages"]["refusal"] == ""
    (found,) = document["results"]
    assert (found["group"], found["subject"][:7], found["case"]) == ("guard pages", "CONV_2D", case[1])
    assert found["detail"] == (
        "buffers before guard pages: prepare_model: it read 1 byte behind the end of constant 0, which "
        "has 96 bytes"
    )
    assert not document["coverage"][0]["certified"]
    assert "behind the end of constant 0" in " ".join(result.stdout.split())
    assert invoke("conformance", *arguments, *case, tmp_path / "report.md").exit_code == 1
    assert (
        f"- Guard pages: {document['guard_pages']['cases']} cases\n" in (tmp_path / "report.md").read_text()
    )


def test_a_daemon_has_no_guard_pages_and_the_report_says_so(tmp_path: Path) -> None:
    reason = "not used: the device is in another process, whose memory is not the suite's"
    with running_daemon(driver="sample-quant") as address:
        arguments = ("conformance", "--device", address, "--operation", "FLOOR", "--count", "0", "--report")
        results = [invoke(*arguments, tmp_path / name) for name in ("report.json", "report.md")]
    for result in results:
        assert result.exit_code == 0, result.stderr
        assert f"1 of guard pages: {reason}" in " ".join(result.stdout.split())
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["guard_pages"] == {"cases": 0, "refusal": reason}
    assert f"- Guard pages: 0 cases; {reason}\n" in (tmp_path / "report.md").read_text()


def test_wrong_names() -> None:
    assert "there is no device 'nothing'" in error_of("conformance", "--device", "nothing")
    message = error_of("conformance", "--device", "cpu", "--operation", "FLY")
    assert "there is no operation 'FLY'" in message


def test_a_folder_without_records(tmp_path: object) -> None:
    arguments = ("conformance", "--device", "cpu", "--operation", "RELU", "--vectors", str(tmp_path))
    assert "contains no conformance records" in error_of(*arguments)
