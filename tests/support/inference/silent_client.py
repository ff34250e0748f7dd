"""Clients of gRPC that say what they like in HTTP/2, and never read."""

import socket
import struct

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4
_INITIAL_WINDOW_SIZE = 4


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def _header(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


def begin_call(port: int, method: str, message: bytes = b"") -> socket.socket:
    """Begins a call with one message; nothing of its answer may be sent, for want of a window."""
    found = socket.create_connection(("127.0.0.1", port))
    headers = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": method.encode(),
        b":authority": b"test",
        b"content-type": b"application/grpc",
        b"te": b"trailers",
    }
    found.sendall(
        _PREFACE
        + _frame(_SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW_SIZE, 0))
        + _frame(_HEADERS, _END_HEADERS, 1, b"".join(_header(*each) for each in headers.items()))
        + _frame(_DATA, _END_STREAM, 1, struct.pack(">BI", 0, len(message)) + message)
    )
    return found
