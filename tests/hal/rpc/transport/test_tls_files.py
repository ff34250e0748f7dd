"""Folders of certificates, with any name."""

from pathlib import Path

import pytest

from neurald.hal.errors import BadState
from neurald.hal.rpc.transport.tls_files import TlsFiles


@pytest.mark.parametrize("name", ["x" * 300, "/" + "x" * 300, "~nobody-has-this-name", "none"])
def test_a_folder_that_cannot_be_is_reported_when_it_is_read(name: str) -> None:
    found = TlsFiles.in_folder(Path(name))
    assert found.certificate.is_absolute()
    with pytest.raises(BadState, match=r"the certificate .* cannot be read"):
        found.read()
