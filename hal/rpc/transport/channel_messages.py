"""The messages of the side channel of a UNIX socket, which opens a session and carries memory.

gRPC cannot carry descriptors. The side channel is a SEQPACKET socket beside the daemon's own, at
its path with `MEMORY_SUFFIX` appended. Each message is one packet:

    daemon -> client, once:     a greeting, then an answer whose token is that of the session
    client -> daemon:           size (u64) and flags (u8), with exactly one descriptor: of a
                                sealed memfd or, with size 0 and the flag FENCE, of an eventfd; or
                                size 0 and the flag RING, with two descriptors: of the socket for
                                the daemon's end, and of the ring's memory
                                (`neurald.hal.rpc.transport.ring_end`); or size 0 and the flag
                                THREAD, with a pidfd of a thread of the client that lives as long
                                as the connection
    daemon -> client, to each:  an answer: result code (u8), token (16 bytes), for errors a message
                                in UTF-8

The kernel tells the daemon the user of the client's process; only the daemon's own user and root
get a session. The session lasts as long as the connection, and ends with the thread of the client:
the kernel closes the sockets of a process that was killed only once all of its memory was given
back, but its threads end at once. A client that breaks these rules is
disconnected; a refused memory does not break them.
"""

import struct

from neurald.hal.errors import OpFailed, ResultCode, error_for

GREETING = b"neurald1"
#: The head of a packet from a client: size and flags.
REGISTER = struct.Struct("<QB")
#: Flags: the memory is constant; the descriptor is an eventfd; the descriptors are for a ring; the
#: descriptor is a pidfd.
CONSTANT = 1
FENCE = 2
RING = 4
THREAD = 8
#: The head of an answer: result code and token; for errors a message follows.
ANSWER = struct.Struct("<B16s")
#: Maximum size of a packet.
PACKET_BYTES = 1024


def write_answer(code: ResultCode, token: bytes = b"", message: str = "") -> bytes:
    """Encodes an answer; a message that is too long is truncated."""
    text = message.encode("utf-8", "replace")[: PACKET_BYTES - ANSWER.size - len(GREETING)]
    return ANSWER.pack(code, token) + text


def read_answer(packet: bytes) -> bytes:
    """Returns the token of an answer, or raises the error that it reports."""
    if len(packet) < ANSWER.size:
        raise OpFailed(
            f"the side channel answered with {len(packet)} bytes; at least {ANSWER.size} are expected"
        )
    number, token = ANSWER.unpack_from(packet)
    if number == ResultCode.NO_ERROR:
        return bytes(token)
    text = packet[ANSWER.size :].decode("utf-8", "replace")
    try:
        code = ResultCode(number)
    except ValueError:
        raise OpFailed(f"the side channel answered with unknown result code {number}: {text}") from None
    raise error_for(code, text)
