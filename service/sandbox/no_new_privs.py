"""Prevents programs from gaining rights through set-user-ID bits or file capabilities."""

from neurald.service.sandbox.kernel import process_control

_PR_SET_NO_NEW_PRIVS = 38


def set_no_new_privs() -> None:
    """Sets PR_SET_NO_NEW_PRIVS for this thread and its children, permanently.

    Raises:
        OSError: the kernel is older than 3.5.
    """
    process_control(_PR_SET_NO_NEW_PRIVS, 1)
