"""Cancels the work of calls that have no client any more."""

import grpc

from neurald.hal.sync.cancellation import Cancellation


def cancellation_of(context: grpc.ServicerContext) -> Cancellation:
    """Returns a cancellation that is cancelled once the client no longer waits for the reply."""
    cancellation = Cancellation()
    if not context.add_callback(cancellation.cancel):
        cancellation.cancel()
    return cancellation
