"""Distinguishes the users of clients on TCP, so that limits apply to each user."""

import ipaddress
import sys
from pathlib import Path
from urllib.parse import unquote

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def peer_user(peer: str, port: int) -> int | str:
    """Returns the number of the user of a client on this host, or the network of another host.

    That network is the address itself for IPv4, and the /64 network for IPv6.

    Args:
        peer: the peer of a call, as gRPC spells it.
        port: the port of the server.
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
    """Returns the user of the socket at an address of this host that is connected to the server.

    Returns None if it cannot be found.
    """
    if isinstance(address, ipaddress.IPv4Address):
        # Sockets of IPv6 can be connected over IPv4, too.
        mapped = ipaddress.IPv6Address(b"\0" * 10 + b"\xff" * 2 + address.packed)
        found = _in_table("tcp", address, port, server_port)
        return _in_table("tcp6", mapped, port, server_port) if found is None else found
    return _in_table("tcp6", address, port, server_port)


def _in_table(name: str, address: _Address, port: int, server_port: int) -> int | None:
    local, remote = f"{_kernel_notation(address)}:{port:04X}", f":{server_port:04X}"
    try:
        with Path("/proc/net", name).open(encoding="ascii") as lines:
            for line in lines:
                columns = line.split(None, 8)
                if len(columns) > 8 and columns[1] == local and columns[2].endswith(remote):
                    return int(columns[7])
    except (OSError, ValueError):
        pass
    return None


def _kernel_notation(address: _Address) -> str:
    """Returns an address as the kernel's tables spell it: 32-bit words in native byte order."""
    packed = address.packed
    words = (packed[start : start + 4] for start in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
