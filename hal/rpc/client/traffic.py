"""Counts the messages and bytes that a client sends to daemons and receives from them."""

import threading
from dataclasses import dataclass, field

from google.protobuf.message import Message

from neurald.hal.process.fork import forkable_lock


@dataclass(slots=True, kw_only=True)
class Traffic:
    """Counts gRPC messages, and their sizes without overhead. Thread-safe."""

    messages_sent: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    _lock: threading.Lock = field(default_factory=forkable_lock, repr=False, compare=False)

    def sent(self, message: Message) -> None:
        """Counts a message to the daemon."""
        self.sent_bytes(message.ByteSize())

    def sent_bytes(self, size_bytes: int) -> None:
        """Counts a message of that size to the daemon; to encode a large one for its size takes long."""
        with self._lock:
            self.messages_sent += 1
            self.bytes_sent += size_bytes

    def received(self, message: Message) -> None:
        """Counts a message from the daemon."""
        self.received_bytes(message.ByteSize())

    def received_bytes(self, size_bytes: int) -> None:
        """Counts a message of that size from the daemon."""
        with self._lock:
            self.bytes_received += size_bytes
