"""Clients of gRPC that say what they like in HTTP/2."""

import contextlib
import socket
import struct
import threading

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PING, _GOAWAY = 0, 1, 4, 6, 7
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_HEAD_BYTES = 9
_INITIAL_WINDOW_SIZE = 4


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def _header(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


def answered_pings(port: int, count: int) -> int:
    """Sends as many pings as the server takes, and returns the number of answers."""
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


def _call(stream: int, method: str, message: bytes) -> bytes:
    headers = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": method.encode(),
        b":authority": b"test",
        b"content-type": b"application/grpc",
        b"te": b"trailers",
    }
    return _frame(
        _HEADERS, _END_HEADERS, stream, b"".join(_header(*each) for each in headers.items())
    ) + _frame(_DATA, _END_STREAM, stream, struct.pack(">BI", 0, len(message)) + message)


def begin_call(port: int, method: str, message: bytes = b"") -> socket.socket:
    """Begins a call with one message, whose client never reads.

    The flow-control window is 0, so that nothing of its answer may be sent.
    """
    found = socket.create_connection(("127.0.0.1", port))
    settings = _frame(_SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW_SIZE, 0))
    found.sendall(_PREFACE + settings + _call(1, method, message))
    return found


class SlowListener:
    """A client that hears late that its connection takes no more calls.

    Args:
        port: of the server.
    """

    def __init__(self, port: int) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.connection.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b""))
        self._received = self.connection.makefile("rb")
        self._ping = b""

    def last_call(self) -> tuple[int, int] | None:
        """Waits until the server says which is the last stream that it takes.

        Returns:
            Its number, and the code of the error; None if the server hangs up without saying so.
        """
        content = self._until(_GOAWAY)
        return None if content is None else struct.unpack_from(">II", content)

    def call(self, stream: int, method: str, message: bytes) -> bytes | None:
        """Calls a method; returns the data of its answer, None if the server hangs up."""
        self.connection.sendall(_call(stream, method, message))
        content = self._until(_DATA)
        return None if content is None else content[5:]

    def acknowledge(self) -> None:
        """Acknowledges a ping of the server."""
        if not self._ping:
            assert self._until(_PING) is not None
        self.connection.sendall(_frame(_PING, _ACK, 0, self._ping))

    def _until(self, wanted: int) -> bytes | None:
        """Receives frames up to one of a kind; returns its content, None if the server hangs up."""
        while len(head := self._received.read(_HEAD_BYTES)) == _HEAD_BYTES:
            content, kind, flags = self._received.read(int.from_bytes(head[:3])), head[3], head[4]
            if kind == _PING and not flags & _ACK:
                self._ping = content
            if kind == wanted and (kind != _PING or not flags & _ACK):
                return content
        return None

    def close(self) -> None:
        """Leaves."""
        self._received.close()
        self.connection.close()
