"""Addresses of daemons."""

from pathlib import Path

import pytest
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.process.address import MEMORY_SUFFIX, Address

pytestmark = pytest.mark.quick


@sweep(
    ("text", "short_name", "target", "is_loopback"),
    [
        ("unix:///run/neurald/cpu.sock", "cpu", "unix:/run/neurald/cpu.sock", True),
        ("unix:///a b/c%d/gpu.0.sock", "gpu.0", "unix:/a%20b/c%25d/gpu.0.sock", True),
        ("localhost:80", "localhost:80", "localhost:80", True),
        ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", True),
        ("127.9.9.9:65535", "127.9.9.9:65535", "127.9.9.9:65535", True),
        ("[::1]:5000", "[::1]:5000", "[::1]:5000", True),
        ("[::]:5000", "[::]:5000", "[::]:5000", False),
        ("0.0.0.0:1", "0.0.0.0:1", "0.0.0.0:1", False),
        ("gpu-box.example.org:7000", "gpu-box.example.org:7000", "gpu-box.example.org:7000", False),
    ],
)
def test_addresses(text: str, short_name: str, target: str, is_loopback: bool) -> None:
    address = Address.parse(text)
    assert str(address) == text
    assert (address.short_name, address.target, address.is_loopback) == (short_name, target, is_loopback)
    assert Address.parse(str(address)) == address


def test_paths() -> None:
    assert Address.parse("unix:here.sock").path == Path.cwd() / "here.sock"
    assert Address.parse("unix:/tmp/x").path == Path("/tmp/x")
    assert Address.parse("unix:///tmp/x").memory_path == Path("/tmp/x.memory")
    with pytest.raises(BadData, match="not a UNIX socket"):
        _ = Address.parse("localhost:1").memory_path


def test_paths_have_a_limit() -> None:
    longest = "/" + "x" * (106 - len(MEMORY_SUFFIX))
    assert len(bytes(Address.parse(f"unix://{longest}").memory_path)) == 107
    with pytest.raises(BadData, match="at most 100 are allowed"):
        Address.parse(f"unix://{longest}x")
    with pytest.raises(BadData, match="at most"):
        Address.parse("unix:///" + "ü" * 60)


@sweep(
    "text",
    [
        "",
        "localhost",
        ":80",
        "localhost:",
        "localhost:http",
        "localhost:-1",
        "localhost:65536",
        "localhost:٣",
        "local host:80",
        "::1:80",
        "[::1:80",
        "[]:80",
        "http://localhost:80",
        "user@host:80",
        "host\n:80",
        "unix:",
        "unix://",
        "unix://relative/path",
        "unix:///folder/",
        "unix:///nul\0l",
        "unix:///\ud800",
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(BadData, match="address"):
        Address.parse(text)
