"""Addresses that are not guarded, or cannot be, are refused."""

from pathlib import Path

import pytest
from support.sweeps import sweep

from neurald.hal.admission.access.served_clients import OWN_USER, ServedClients
from neurald.hal.admission.access.sharing import Sharing
from neurald.hal.errors import BadData
from neurald.hal.process.address import Address
from neurald.hal.rpc.transport.tls_files import TlsFiles

pytestmark = pytest.mark.quick

_TLS = TlsFiles.in_folder(Path("/tls"))
_SHARED = Sharing(users=frozenset({1000}))


@sweep(
    "clients,address",
    [
        (OWN_USER, "unix:///d.sock"),
        (OWN_USER, "127.0.0.1:1"),
        (ServedClients(insecure=True), "0.0.0.0:1"),
        (ServedClients(tls=_TLS), "0.0.0.0:1"),
        (ServedClients(sharing=_SHARED), "unix:///d.sock"),
    ],
)
def test_guarded_addresses(clients: ServedClients, address: str) -> None:
    clients.require_guarded(Address.parse(address))


@sweep(
    "clients,address,reason",
    [
        (OWN_USER, "0.0.0.0:1", "pass --tls FOLDER"),
        (ServedClients(tls=_TLS, insecure=True), "127.0.0.1:1", "excludes --insecure"),
        (ServedClients(tls=_TLS), "unix:///d.sock", "excludes the UNIX socket"),
        (ServedClients(sharing=_SHARED), "127.0.0.1:1", "users can be admitted to UNIX sockets only"),
    ],
)
def test_refused_addresses(clients: ServedClients, address: str, reason: str) -> None:
    with pytest.raises(BadData, match=reason):
        clients.require_guarded(Address.parse(address))
