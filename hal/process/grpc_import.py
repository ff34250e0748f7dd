"""Imports gRPC without its handlers of forks, with which children of an application may crash.

gRPC registers functions that run before and after each fork, to make children able to use it. They
do not work while another thread uses gRPC, which is usual in an application that is connected to
daemons: up to a tenth of its children then crash when they start a thread or fork. Children of a
process that has used gRPC get an error before they use it (`neurald.hal.process.fork`), so they
need no such functions.

An application that imports gRPC itself before it connects to a daemon decides about them itself.
"""

import os
import sys
from typing import Final

#: The variable by which users turn the handlers on or off. gRPC reads it when it is imported.
_VARIABLE: Final = "GRPC_ENABLE_FORK_SUPPORT"


def import_grpc() -> None:
    """Imports gRPC without its handlers of forks, unless it was imported or users have set them.

    The environment is as before afterwards, since programs that the application starts inherit it.
    """
    is_ours = "grpc" not in sys.modules and _VARIABLE not in os.environ
    if is_ours:
        os.environ[_VARIABLE] = "0"
    try:
        import grpc  # noqa: F401
    finally:
        if is_ours:
            os.environ.pop(_VARIABLE, None)
