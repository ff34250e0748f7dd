"""Runs the checks of a server of the V2 protocol."""

import contextlib
from collections.abc import Callable, Iterator

from neurald.hal.errors import BadData, UnavailableDevice
from neurald.service.conformance.result import CheckResult, Outcome
from neurald.service.inference.conformance.checks import CHECKS, CheckedServer, Violation
from neurald.service.inference.conformance.client import Reply, Unavailable, V2Client
from neurald.service.inference.conformance.server_access import ServerAccess


def connect(access: ServerAccess) -> V2Client:
    """Returns a client of a server.

    Raises:
        BadState: a file of a certificate cannot be read, or is not valid.
    """
    if access.protocol == "grpc":
        from neurald.service.inference.conformance.grpc_client import GrpcV2Client

        return GrpcV2Client(access)
    from neurald.service.inference.conformance.http_client import HttpV2Client

    return HttpV2Client(access)


def run_checks(
    client: V2Client, model: str, mutations: int, advance: Callable[[float], object] = lambda share: None
) -> Iterator[CheckResult]:
    """Runs all checks of a server with one of its models.

    Args:
        client: the connection.
        model: name of the model; empty for one that the server has ready.
        mutations: how many damaged requests are sent.
        advance: receives the share of checks that have ended.

    Raises:
        UnavailableDevice: the server cannot be reached.
        BadData: there is no such model, or none is ready.
    """
    subject = _subject(client, model, mutations)
    for number, (group, check) in enumerate(CHECKS, 1):
        outcome, detail = Outcome.PASSED, ""
        try:
            check(subject)
        except Violation as error:
            outcome, detail = Outcome.FAILED, str(error)
        except Unavailable as error:
            outcome, detail = Outcome.DECLINED, str(error)
        except OSError as error:
            outcome, detail = Outcome.FAILED, f"the connection failed: {error}"
        yield CheckResult(
            group=group,
            subject=(check.__doc__ or "").partition("\n")[0].rstrip("."),
            outcome=outcome,
            detail=detail,
            label=check.__name__,
        )
        advance(number / len(CHECKS))


def _subject(client: V2Client, model: str, mutations: int) -> CheckedServer:
    try:
        client.is_live()
        if not model:
            model = next((name for name, state in client.models().items() if state == "READY"), "")
        if not model:
            raise BadData("the server has no model that is ready; name one with --model")
        offer = client.offer(model)
    except (Unavailable, OSError) as error:
        raise UnavailableDevice(
            f"the server does not answer: {error}; check that it runs, and the URL of --service"
        ) from None
    if isinstance(offer, Reply):
        if offer.status != "NOT_FOUND":
            raise UnavailableDevice(
                f"the server does not describe the model {model!r}: {offer.status}: {offer.message}"
            )
        raise BadData(f"the server has no model {model!r}: {offer.status}: {offer.message}")
    if not offer.inputs:
        raise BadData(f"the model {model!r} has no inputs, so requests cannot be checked")
    max_batch = 0
    with contextlib.suppress(Unavailable, OSError):
        max_batch = client.max_batch(model)
    return CheckedServer(client=client, offer=offer, max_batch=max_batch, mutations=mutations)
