"""Authorizes calls over mutual TLS by the certificates of their clients.

gRPC has verified the signature, purpose and time of a certificate when the connection was opened.
A connection can outlive its certificate, and gRPC knows no revocations, so both are checked at
every call, before anything of it is parsed.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

import grpc

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.errors import UnavailableDevice
from neurald.hal.process.rate_limited_logger import RateLimitedLogger
from neurald.hal.rpc.transport.certificate import Certificate, Revocations, read_certificate
from neurald.hal.rpc.transport.status import abort

_refusals: Final = RateLimitedLogger(logging.getLogger(__name__))


class CertificateInterceptor(grpc.ServerInterceptor):
    """Refuses calls of clients whose certificate has expired or was revoked.

    Args:
        revocations: the list of revoked certificates.
    """

    def __init__(self, revocations: Revocations) -> None:
        self._revocations = revocations

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        """Returns the handler of a call, which checks the client's certificate first."""
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        behaviour, make = _parts(handler)
        return make(self._checked(behaviour), handler.request_deserializer, handler.response_serializer)

    def refusal(self, certificate: Certificate) -> str:
        """Returns why a certificate is refused, as a sentence; empty if it is not."""
        reason = "was revoked" if certificate.serial in self._revocations else certificate.untimely()
        return reason and f"the certificate {certificate.name!r} of this client {reason}"

    def _checked(self, behaviour: Callable[..., Any]) -> Callable[..., Any]:
        def call(request: Any, context: grpc.ServicerContext, *more: Any) -> Any:
            certificate = peer_certificate(context)
            reason = (
                "the client has presented no certificate"
                if certificate is None
                else self.refusal(certificate)
            )
            if reason:
                note_event(
                    CountedEvent.UNTRUSTED, "certificate", _refusals.warning, "refused a call: %s", reason
                )
                abort(context, UnavailableDevice(reason), grpc.StatusCode.UNAUTHENTICATED)
            return behaviour(request, context, *more)

        for attribute in ("experimental_non_blocking", "experimental_thread_pool"):
            if hasattr(behaviour, attribute):
                setattr(call, attribute, getattr(behaviour, attribute))
        return call


def peer_certificate(context: grpc.ServicerContext) -> Certificate | None:
    """Returns the certificate of a call's client; None without TLS."""
    found = context.auth_context().get("x509_pem_cert") or ()
    try:
        return read_certificate(bytes(found[0])) if found else None
    except ValueError:
        return None


def _parts(handler: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Returns the behaviour of a handler, and the function that makes handlers of its kind."""
    if handler.request_streaming:
        if handler.response_streaming:
            return handler.stream_stream, grpc.stream_stream_rpc_method_handler
        return handler.stream_unary, grpc.stream_unary_rpc_method_handler
    if handler.response_streaming:
        return handler.unary_stream, grpc.unary_stream_rpc_method_handler
    return handler.unary_unary, grpc.unary_unary_rpc_method_handler
