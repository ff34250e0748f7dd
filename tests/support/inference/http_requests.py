"""Requests to the HTTP application of the execution service, without a server."""

from typing import Any

from neurald.service.inference.server.admission.header_forwarding import ForwardedHeaders
from neurald.service.inference.server.admission.request_budget import RequestBudget
from neurald.service.inference.server.admission.restrictions import Restrictions
from neurald.service.inference.server.http.http_app import HttpApp
from neurald.service.inference.server.http.request_events import EVENTS, RequestEvents
from neurald.service.inference.server.regions.region_calls import RegionCalls


def app_of(calls: Any) -> HttpApp:
    """Returns an application that answers with calls, or with what has their methods."""
    restrictions = Restrictions((), noun="API")
    budget = RequestBudget(1 << 20)
    return HttpApp(
        calls,
        RegionCalls(),
        budget,
        message_bytes=1 << 20,
        token="",
        restrictions=restrictions,
        forwarded=ForwardedHeaders(),
    )


class Unpaused:
    """A connection that receives at any time."""

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def request_scope(call: str, **headers: str) -> dict[str, Any]:
    """Returns the scope of a request to a model, as a server with the extension `EVENTS` has it."""
    path = f"/v2/{'repository/' if call == 'load' else ''}models/m/{call}".encode()
    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    extensions = {EVENTS: RequestEvents(Unpaused())}
    return {
        "type": "http",
        "http_version": "1.0",
        "method": "POST",
        "raw_path": path,
        "headers": encoded,
        "extensions": extensions,
    }
