"""No program that this process starts gains rights: not from set-user-ID bits, and not from file capabilities."""

from neurald.service.sandbox.kernel import process_control

_PR_SET_NO_NEW_PRIVS = 38


def set_no_new_privs() -> None:
    """Sets PR_SET_NO_NEW_PRIVS for this thread, those that it starts, and their processes, for ever.

    Raises:
        OSError: the kernel is older than 3.5.
    """
    process_control(_PR_SET_NO_NEW_PRIVS, 1)
