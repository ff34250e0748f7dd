"""Reports the errors of calls to their clients.

An `Error` is reported with its code and text; any other exception is logged with its traceback, and
reported without any detail.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

import grpc

from neurald.hal.errors import THREAD_FAULTS, Error, OpFailed, OutOfMemory, error_for
from neurald.hal.rpc.server.failure_log import note_failure
from neurald.hal.rpc.transport.status import abort

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


def run_or_abort(context: grpc.ServicerContext, call: Callable[[], _T]) -> _T:
    """Returns the result of `call`; if it raises, the gRPC call ends with the error for the client.

    Ending the call raises another exception, which gRPC keeps for a while. This happens outside of
    the `except` block: an exception that is kept also keeps the one during which it was raised,
    with its frames and the memory of the call.
    """
    try:
        return call()
    except THREAD_FAULTS as error:
        failure = failure_to_report(error)
    note_failure(failure, "a call")
    return abort(context, failure)


def failure_to_report(error: BaseException) -> Error:
    """Returns the error that the client is sent.

    Raises:
        RpcError, GeneratorExit: it is `error`: the client has gone, and its stream with it.
    """
    if isinstance(error, Error):
        # Not the error itself, which refers to the frames that it passed.
        return error_for(error.code, str(error))
    if isinstance(error, MemoryError):
        return OutOfMemory("the daemon has no memory left for this call")
    if isinstance(error, grpc.RpcError | GeneratorExit):
        # gRPC expects this very exception, and keeps it.
        try:
            raise error.with_traceback(None)
        finally:
            # An exception to which its frames refer keeps them, and the memory of the call.
            del error
    logger.error("a call failed", exc_info=error)
    return OpFailed("internal error of the daemon; its log has the details")
