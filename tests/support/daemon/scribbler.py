"""A process that changes the memory of a ring all the time, as a hostile client could.

It puts submissions of all requests, one after the other, and changes their entries, flags and other
words while the daemon reads them.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from neurald.hal.rpc.transport.ring_end import RING_BYTES
from neurald.hal.rpc.transport.ring_layout import (
    CANCELLED,
    COMPLETION,
    ENTRY_OFFSET,
    SUBMISSION,
    WAKE,
    WAKE_BYTES,
    WANTED_STAMPS,
    WORD_BYTES,
)

_PROGRAM = f"""
import mmap, os, random, sys
fd, connection, size, put, taken, entry, cancelled, stamps, peer_sleeps, sleeps, requests, seed, *rest = map(int, sys.argv[1:])
words = memoryview(mmap.mmap(fd, size)).cast("I")
rng = random.Random(seed)
wake = bytes([{WAKE}]) + bytes({WAKE_BYTES - 1})

def request():
    # One that is not known ends the ring.
    return rng.randrange(requests) if rng.random() > 0.0002 else rng.getrandbits(32)

while True:
    last = words[taken]
    for _ in range(rng.choice((1, 2, 20))):
        words[entry] = request()
        words[entry + rng.randrange(1, 1 + len(rest))] = rng.getrandbits(32)
        for index, word in enumerate(rest, entry + 1):
            words[index] = word
    words[put] = (last + 1) % (1 << 32)
    if rng.random() < 0.2:
        try:
            os.write(connection, wake)
        except BlockingIOError:
            pass
        except OSError:
            break  # the ring has ended
    for _ in range(rng.choice((0, 3, 30))):
        where = rng.randrange(5)
        if where < 2:
            words[entry] = request()
            if rng.random() < 0.01:
                words[entry + rng.randrange(1, 1 + len(rest))] = rng.getrandbits(32)
        elif where == 2:
            words[rng.choice((peer_sleeps, sleeps))] = rng.randrange(2)
        elif where == 3:
            words[stamps] = rng.choice((0, 0, 7))
        else:
            words[cancelled] = rng.choice((0, last, rng.getrandbits(32)))
"""


@contextlib.contextmanager
def scribbling(fd: int, connection: int, submission: bytes, *, requests: int, seed: int) -> Iterator[None]:
    """Changes a ring from its client's side during the context.

    Args:
        fd: the descriptor of the ring's memory.
        connection: that of the client's end of its socket, which does not block.
        submission: a valid one, whose first word is the number of the request.
        requests: submissions are those of the requests, or slots, below this number.
        seed: decides what is written.
    """
    (put, peer_sleeps), (taken, sleeps) = SUBMISSION, COMPLETION
    entry = put + ENTRY_OFFSET // WORD_BYTES
    numbers = (
        fd,
        connection,
        RING_BYTES,
        put,
        taken,
        entry,
        CANCELLED,
        WANTED_STAMPS,
        peer_sleeps,
        sleeps,
        requests,
        seed,
    )
    rest = np.frombuffer(submission, np.uint32)[1:].tolist()
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", _PROGRAM, *map(str, (*numbers, *rest))],
        pass_fds=(fd, connection),
        env=dict(os.environ),
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()
