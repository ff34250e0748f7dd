"""Handlers of signals: they hold during a block, however it ends."""

import os
import signal

import pytest

from neurald.hal.process.signal_handlers import signals_handled

_NUMBERS = (signal.SIGUSR1, signal.SIGUSR2)


def test_signals_are_handled_during_the_block_only() -> None:
    before = [signal.getsignal(number) for number in _NUMBERS]
    found: list[int] = []
    with signals_handled(_NUMBERS, lambda: found.append(1)):
        for number in _NUMBERS:
            os.kill(os.getpid(), number)
        assert len(found) == len(_NUMBERS)
    assert [signal.getsignal(number) for number in _NUMBERS] == before


def test_an_error_of_the_handler_ends_the_block() -> None:
    before = [signal.getsignal(number) for number in _NUMBERS]

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), signals_handled(_NUMBERS, interrupt):
        os.kill(os.getpid(), signal.SIGUSR2)
    assert [signal.getsignal(number) for number in _NUMBERS] == before


def test_nothing_is_handled_where_one_signal_cannot_be() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with (
        pytest.raises(OSError, match="Invalid argument"),
        signals_handled((signal.SIGUSR1, signal.SIGKILL), lambda: None),
    ):
        pass
    assert signal.getsignal(signal.SIGUSR1) == before
