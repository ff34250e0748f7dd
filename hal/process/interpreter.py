"""Finds the Python interpreter that runs neurald's own programs.

`sys.executable` may be another program: the application itself if it was built by PyInstaller or
the like, or the one that embeds Python, such as uWSGI. Started with the arguments of an
interpreter, it would run the application once more, which would start it again, and so on.
"""

import os
import sys
from typing import Final

#: What is said where `interpreter` finds none.
NO_INTERPRETER: Final = "the path of a Python interpreter is not known"
#: How the names of interpreters begin.
_NAMES: Final = ("python", "platform-python", "pypy", "graalpy")


def interpreter() -> str:
    """Returns the path of an interpreter like the one of this process.

    It is empty if none is known.
    """
    if getattr(sys, "frozen", False):
        return ""
    path = sys.executable or ""
    if not path or os.path.basename(path).startswith(_NAMES):  # noqa: PTH119 - pathlib is slower
        return path
    version = f"{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}"
    installed = f"{sys.exec_prefix}/bin/python{version}"
    return installed if os.access(installed, os.X_OK) else ""
