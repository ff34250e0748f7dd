"""What clients on TCP are told apart by, so that none of them takes what is there for all."""

import ipaddress
import sys
from pathlib import Path
from urllib.parse import unquote

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def peer_user(peer: str, port: int) -> int | str:
    """The user of a client on this host by its number, else the client's host, of which those of IPv6 have a network each.

    Args:
        peer: of a call, as gRPC spells it.
        port: of the server.
    """
    host, _, number = unquote(peer).partition(":")[2].rpartition(":")
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback and number.isdecimal():
        user = _user_of(address, int(number), port)
        if user is not None:
            return user
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))


def _user_of(address: _Address, port: int, server_port: int) -> int | None:
    """Whose socket is connected from an address and port of this host to a port of it; None where that cannot be seen."""
    if isinstance(address, ipaddress.IPv4Address):
        # Sockets of IPv6 can be connected over IPv4, too.
        mapped = ipaddress.IPv6Address(b"\0" * 10 + b"\xff" * 2 + address.packed)
        found = _in_table("tcp", address, port, server_port)
        return _in_table("tcp6", mapped, port, server_port) if found is None else found
    return _in_table("tcp6", address, port, server_port)


def _in_table(name: str, address: _Address, port: int, server_port: int) -> int | None:
    local, remote = f"{_kernels(address)}:{port:04X}", f":{server_port:04X}"
    try:
        with Path("/proc/net", name).open(encoding="ascii") as lines:
            for line in lines:
                columns = line.split(None, 8)
                if len(columns) > 8 and columns[1] == local and columns[2].endswith(remote):
                    return int(columns[7])
    except (OSError, ValueError):
        pass
    return None


def _kernels(address: _Address) -> str:
    """An address as the kernel's tables spell it: words of 32 bits in the order of the machine."""
    packed = address.packed
    words = (packed[start : start + 4] for start in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
