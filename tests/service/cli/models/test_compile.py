import json
from pathlib import Path

import pytest
from support.daemon.command_line import error_of, invoke, invoke_json

from neurald.service.demo.digits import MODEL


@pytest.fixture(autouse=True)
def _own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{variable}_HOME", str(tmp_path / variable.lower()))


def test_a_model_is_compiled_and_run(tmp_path: Path) -> None:
    plan = tmp_path / "digits.plan"
    result = invoke("compile", MODEL, "-o", plan, "--device", "cpu")
    assert result.exit_code == 0, result.stderr
    assert "cpu" in result.stdout
    document = invoke_json("compile", MODEL, "--output", plan, "--threads", "1")
    (step,) = document["steps"]
    assert (step["device"], step["operations"], step["reason"]) == ("cpu", 9, "")
    ran = invoke_json("run", plan)
    assert [each["cache"] for each in ran["steps"]] == ["hit"]
    assert ran["outputs"] == invoke_json("run", MODEL)["outputs"]
    assert invoke("run", plan, "--require", "cpu").exit_code == 0
    assert invoke_json("run", plan, "--device", "reference", "--verify")["verification"][0]["verified"] == 1


def test_the_key_is_printed_and_trusted_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tmp_path / "digits.plan"
    result = invoke("compile", "--public-key")
    assert result.stdout.startswith("neurald-plan-key ")
    assert invoke_json("compile", "--public-key")["key"] + "\n" == result.stdout
    assert invoke("compile", MODEL, "-o", plan).exit_code == 0
    keys = tmp_path / "k.pub"
    keys.write_text(result.stdout)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert "which is not trusted" in error_of("run", plan)
    assert json.loads(invoke("run", plan, "--trust", keys, "--json").stdout)["steps"][0]["cache"] == "hit"


def test_wrong_usage_is_refused(tmp_path: Path) -> None:
    assert invoke("compile").exit_code == 2
    assert invoke("compile", MODEL).exit_code == 2
    assert "No such file" in error_of("compile", tmp_path / "none.tflite", "-o", tmp_path / "a.plan")
    plan = tmp_path / "digits.plan"
    assert invoke("compile", MODEL, "-o", plan).exit_code == 0
    assert invoke("run", plan, "--threads", "2").exit_code == 2
    assert invoke("run", MODEL, "--trust", plan).exit_code == 2
    whole = plan.read_bytes()
    plan.write_bytes(whole[:-64])
    assert f"it has {len(whole) - 64} bytes; {len(whole)} are expected" in error_of("run", plan)
