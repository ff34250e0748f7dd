"""Reports of a front end to its supervisor, one line of JSON each."""

import msgspec

from neurald.service.inference.server.client_choices import ClientChoices
from neurald.service.manager.state import ServiceStatus


class FrontEndReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A report of what has changed.

    Attributes:
        status: how the service is now; None if that has not changed.
        choices: what clients have chosen, all of it; None if that has not changed.
    """

    status: ServiceStatus | None = None
    choices: ClientChoices | None = None
