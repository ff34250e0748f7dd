"""The commands for certificates, and a daemon and a client that use them."""

import contextlib
import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon.command_line import error_of, invoke, invoke_json, start
from support.waiting import wait_until

import neurald as nd
from neurald.hal.errors import UnavailableDevice

pytest.importorskip("cryptography", reason="certificates need neurald[tls]")


@contextlib.contextmanager
def serving(*arguments: str, folder: Path) -> Iterator[str]:
    """Runs a daemon and yields the address that it prints."""
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    process = start("driver", *arguments, env=environment, cwd=folder)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("serving "), line + process.stderr.read()
        yield line.split()[-1]
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def issued(folder: Path, name: str, *options: str) -> Path:
    result = invoke("cert", "issue", name, "--folder", folder, *options)
    assert result.exit_code == 0, result.stderr
    return Path(result.stdout.strip())


@pytest.mark.timed
def test_from_an_authority_to_a_revocation(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    assert "keep authority.key secret" in invoke("cert", "init", "--folder", folder).stderr
    gpu = issued(folder, "gpu", "--host", "127.0.0.1", "--host", "localhost")
    laptop, desk = issued(folder, "laptop"), issued(folder, "desk", "--days", "7")
    arguments = ("cpu", "--listen", "127.0.0.1:0", "--tls", str(gpu))
    with serving(*arguments, folder=tmp_path) as address:
        assert not list(tmp_path.glob("neurald/*.token"))
        device = nd.connect(address, tls=laptop)
        assert device.status().access.name == "CERTIFICATE"
        assert device.status().sandbox
        result = invoke("cert", "revoke", "laptop", "--folder", folder)
        assert "revoked 1 of laptop" in result.stderr
        started = time.monotonic()
        wait_until(lambda: not device.is_alive)
        assert time.monotonic() < started + 15
        with pytest.raises(UnavailableDevice, match="'laptop' of this client was revoked"):
            nd.connect(address, tls=laptop)
        other = nd.connect(address, tls=desk)
        other.close()
        device.close()
    document = invoke_json("cert", "show", "--folder", folder)
    assert [(each["name"], each["state"]) for each in document["certificates"]] == [
        ("gpu", "valid"),
        ("laptop", "revoked"),
        ("desk", "valid"),
    ]
    assert document["certificates"][0]["hosts"] == ["127.0.0.1", "localhost"]
    result = invoke("cert", "show", "--folder", folder)
    assert "desk expires soon" in result.stderr
    assert "gpu expires soon" not in result.stderr
    assert stat.S_IMODE((laptop / "key.pem").stat().st_mode) == 0o600
    json.loads((folder / "issued.json").read_text())


def test_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert invoke("cert", "init").exit_code == 0
    assert (tmp_path / "neurald/tls/ca.pem").exists()
    assert "has an authority already" in error_of("cert", "init")
    assert invoke("cert", "init", "--replace").exit_code == 0


def test_mistakes(tmp_path: Path) -> None:
    assert "neurald cert init" in error_of("cert", "issue", "gpu", "--folder", tmp_path / "tls")
    assert "--tls FOLDER, or each of" in error_of(
        "driver", "cpu", "--listen", "127.0.0.1:0", "--tls-cert", tmp_path / "cert.pem", "--sandbox", "off"
    )
    assert "cannot be read" in error_of(
        "driver", "cpu", "--listen", "127.0.0.1:0", "--tls", tmp_path / "gone", "--sandbox", "off"
    )
    assert "pass --tls FOLDER" in error_of("driver", "cpu", "--listen", "0.0.0.0:0", "--sandbox", "off")
