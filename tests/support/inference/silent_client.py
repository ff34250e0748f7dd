"""Clients of gRPC that say what they like in HTTP/2."""

import contextlib
import socket
import struct
import threading

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PING = 0, 1, 4, 6
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_HEAD_BYTES = 9
_INITIAL_WINDOW_SIZE = 4


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def _header(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


def answered_pings(port: int, count: int) -> int:
    """Sends as many pings as the server takes, and returns how many it answers before it hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as found:

        def send() -> None:
            with contextlib.suppress(OSError):
                found.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + _frame(_PING, 0, 0, bytes(8)) * count)

        sender = threading.Thread(target=send)
        sender.start()
        answered, left = 0, b""
        while answered < count and (received := found.recv(1 << 20)):
            left += received
            at = 0
            while len(left) - at >= (size := _HEAD_BYTES + int.from_bytes(left[at : at + 3])):
                answered += left[at + 3 : at + 5] == bytes((_PING, _ACK))
                at += size
            left = left[at:]
        sender.join()
    return answered


def begin_call(port: int, method: str, message: bytes = b"") -> socket.socket:
    """Begins a call with one message, whose client never reads.

    Nothing of its answer may be sent, for want of a window.
    """
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
