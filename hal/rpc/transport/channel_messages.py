"""The side channel of a UNIX socket: it opens a session and carries memory, which gRPC cannot.

It is a SEQPACKET socket beside the daemon's own, `MEMORY_SUFFIX` appended. Each message is one packet:

    daemon -> client, once:     greeting, then an answer whose token is that of the session
    client -> daemon:           size (u64), flags (u8), and with it exactly one descriptor: of a sealed memfd,
                                or with size 0 and the flag for it of an eventfd; or a prepared model (u64), the
                                flag for a burst of it, and two descriptors: of a socket to the daemon's end
                                of the burst, and of its ring (`neurald.hal.rpc.transport.burst_ring`)
    daemon -> client, to each:  an answer: result code (u8), token (16 bytes), for errors a sentence in UTF-8

The kernel tells the daemon whose process the client is; only its own user and root get a session. The
session lasts as long as the connection. A client that breaks these rules is cut off; a memory that is
refused is not breaking them.
"""

import struct

from neurald.hal.errors import OpFailed, ResultCode, error_for

GREETING = b"neurald1"
#: Size, or the handle of a prepared model, and flags.
REGISTER = struct.Struct("<QB")
#: Flags: the memory never changes; the descriptor is an eventfd; the descriptors are for a burst.
CONSTANT = 1
FENCE = 2
BURST = 4
#: Result code and token; for errors a sentence follows.
ANSWER = struct.Struct("<B16s")
#: Maximum size of a packet.
PACKET_BYTES = 1024


def write_answer(code: ResultCode, token: bytes = b"", message: str = "") -> bytes:
    """Encodes an answer; a message that is too long is cut."""
    text = message.encode("utf-8", "replace")[: PACKET_BYTES - ANSWER.size - len(GREETING)]
    return ANSWER.pack(code, token) + text


def read_answer(packet: bytes) -> bytes:
    """The token in an answer; raises the error that it tells instead."""
    if len(packet) < ANSWER.size:
        raise OpFailed(f"the side socket answered {len(packet)} bytes; at least {ANSWER.size} are expected")
    number, token = ANSWER.unpack_from(packet)
    if number == ResultCode.NO_ERROR:
        return bytes(token)
    text = packet[ANSWER.size :].decode("utf-8", "replace")
    try:
        code = ResultCode(number)
    except ValueError:
        raise OpFailed(f"the side socket answered with result code {number}: {text}") from None
    raise error_for(code, text)
