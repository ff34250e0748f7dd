"""`python -m neurald` is the `neurald` command."""

import sys

from neurald.service.console.interrupts import interrupt_after_imports

#: The exit status after Ctrl-C.
_INTERRUPTED = 130


def main() -> None:
    """Runs the `neurald` command and ends the process."""
    interrupt_after_imports()
    try:
        from neurald.service.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
