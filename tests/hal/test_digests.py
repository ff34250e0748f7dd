"""Digests and authentication codes are those of BLAKE2b, and no OpenSSL is loaded for them."""

import hashlib
import subprocess
import sys

import pytest

from neurald.hal.digests import DIGEST_BYTES, are_equal, digest_of, hex_digest_of, mac_of, name_of, new_digest

pytestmark = pytest.mark.quick


def test_digests_are_those_of_hashlib() -> None:
    for content in (b"", b"a", bytes(range(256)) * 5):
        expected = hashlib.blake2b(content, digest_size=DIGEST_BYTES)
        assert digest_of(content) == digest_of(memoryview(content)) == expected.digest()
        assert hex_digest_of(content) == expected.hexdigest()
        digest = new_digest()
        digest.update(content[:3])
        digest.update(content[3:])
        assert digest.digest() == expected.digest()


def test_names_are_short() -> None:
    assert name_of("text", 8) == hashlib.blake2s(b"text", digest_size=8).hexdigest()


def test_codes_depend_on_key_and_content() -> None:
    codes = {mac_of(key, content) for key in (b"k" * 32, b"l" * 32) for content in (b"", b"a", b"b")}
    assert len(codes) == 6
    assert mac_of(b"k" * 32, b"") != digest_of(b"")


def test_codes_are_compared_whole() -> None:
    code = mac_of(b"k" * 32, b"content")
    assert are_equal(code, bytes(code))
    assert are_equal(b"", b"")
    for other in (b"", code[:-1], code + b"\0", bytes([code[0] ^ 1]) + code[1:], code[:-1] + b"\0"):
        assert are_equal(code, other) == (code == other)


def test_openssl_is_not_loaded() -> None:
    program = "import sys, neurald.hal.digests; print('_hashlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
