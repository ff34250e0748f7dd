"""The layout of a ring's memory, see `neurald.hal.rpc.transport.ring_end`."""

from typing import Final

WORD_BYTES: Final = 4
#: Indexes of 32-bit words, with separate cache lines for each direction: (number of the entry,
#: whether its reader sleeps).
SUBMISSION: Final = (0, 48)
COMPLETION: Final = (16, 32)
#: Index of the word with the number of the submission that its client has cancelled.
CANCELLED: Final = 33
#: Index of the word that counts the packets which the client has sent, other than those that wake
#: the daemon.
PACKETS: Final = 34
#: Index of the word with the number with which the client wants stamps of calls; 0 for none.
WANTED_STAMPS: Final = 512
#: Offset of the stamps that the daemon leaves, in bytes: see
#: `neurald.hal.rpc.transport.ring_end.Stamps`.
STAMPS_OFFSET: Final = 2112
#: Offset of an entry from its number, in bytes.
ENTRY_OFFSET: Final = 8
#: The packet that wakes the other end: its kind, and its size with the number of the entry.
WAKE: Final = 0
WAKE_BYTES: Final = 5
#: How many requests a ring keeps.
MAX_REQUESTS: Final = 64
