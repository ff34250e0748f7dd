"""Startup: whether a compilation waits for optimised code."""

from enum import Enum

from neurald.hal.errors import BadState
from neurald.hal.process.environment import environment_variable

#: Environment variable with the startup of compilations that do not set it.
STARTUP_VARIABLE = "NEURALD_STARTUP"


class Startup(Enum):
    """The point at which a compilation is ready to run.

    INSTANT: as soon as every step has code of any kind. Optimised code is compiled meanwhile, in
        the background, and replaces the first between two calls.
    OPTIMIZED: when every step has optimised code.
    """

    INSTANT = "instant"
    OPTIMIZED = "optimized"


def default_startup(*, has_explicit_devices: bool) -> Startup:
    """Returns the startup of a compilation that does not set it.

    Args:
        has_explicit_devices: True if the application chose the devices.

    Raises:
        BadState: the environment variable has another value than those of `Startup`.
    """
    text = environment_variable(STARTUP_VARIABLE)
    if not text:
        return Startup.OPTIMIZED if has_explicit_devices else Startup.INSTANT
    try:
        return Startup(text)
    except ValueError:
        values = " or ".join(each.value for each in Startup)
        raise BadState(f"{STARTUP_VARIABLE} is {text!r}; {values} is expected") from None
