import re
from pathlib import Path

import pytest
from support.daemon.command_line import invoke
from support.devices.cached import ORIGIN, artifact, entry_parts

from neurald.hal.cache.store import Cache
from neurald.service.certificates.authority import Authority, authority_folder
from neurald.service.cli.options import completion


def test_names_are_completed() -> None:
    assert "cpu" in completion.device_names("")
    assert completion.device_names("cp") == ["cpu"]
    assert completion.driver_names("ref") == ["reference"]
    assert completion.policy_names("m") == ["min_cost"]
    assert completion.startup_names("") == ["instant", "optimized"]
    assert "CONV_2D" in completion.operation_names("conv_2")


def test_models_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models" / "deep").mkdir(parents=True)
    for name in ("a.tflite", "b.tflite", "notes.txt", ".hidden.tflite"):
        (tmp_path / "models" / name).touch()
    monkeypatch.chdir(tmp_path)
    assert completion.model_files("m") == ["models/"]
    assert completion.model_files("models/") == ["models/a.tflite", "models/b.tflite", "models/deep/"]
    assert completion.model_files(f"{tmp_path}/models/a") == [f"{tmp_path}/models/a.tflite"]
    assert completion.model_files("models/.") == ["models/.hidden.tflite"]
    assert completion.model_files("nothing/") == []


def test_keys_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert completion.cache_keys("") == []
    Cache(tmp_path / "neurald").store(entry_parts(graphs="0"), artifact(bytes(10)), ORIGIN)
    key = entry_parts(graphs="0").key().hex()
    assert completion.cache_keys(key[:5]) == [key]
    assert completion.cache_keys("x") == []


def test_sockets_of_daemons_are_completed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("r")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    (folder / "neurald").mkdir()
    for name in ("manager.sock", "npu.sock", "service.sock"):
        (folder / "neurald" / name).touch()
    assert completion.device_names("unix:") == [f"unix://{folder}/neurald/npu.sock"]


def test_names_of_certificates_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert completion.certificate_names("") == []
    authority = Authority(authority_folder())
    authority.create("lab")
    for name in ("camera", "camera", "server"):
        authority.issue(name, None, 1)
    assert completion.certificate_names("") == ["camera", "server"]
    assert completion.certificate_names("s") == ["server"]


@pytest.mark.parametrize(
    "words", ["run m.tflite --device ", "driver ", "explain m.tflite --device ", "benchmark --device "]
)
def test_shells_are_answered(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_NEURALD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"neurald {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) + 1))
    result = invoke()
    assert re.search(r"^cpu$", result.stdout, re.MULTILINE)
