"""Reports deaths of the processes of one driver to the investigator of crashes."""

from neurald.hal.crashes.trail import read_helper_deaths
from neurald.service.crashes.investigator import CrashedDriver, CrashInvestigator
from neurald.service.manager.settings.configuration import DriverSettings
from neurald.service.manager.state import PatternStatus
from neurald.service.manager.supervision.driver_process import DriverProcess


class DriverCrashes:
    """The crashes of a driver.

    Args:
        name, address: the name and address of the driver.
        investigator: records what kills it.
    """

    def __init__(self, name: str, address: str, investigator: CrashInvestigator) -> None:
        self._name = name
        self._address = address
        self._investigator = investigator

    def patterns(self, settings: DriverSettings) -> tuple[PatternStatus, ...]:
        """Returns the patterns that killed the driver of these settings."""
        return tuple(PatternStatus.of(each) for each in self._investigator.entries(settings.driver))

    def process_died(self, settings: DriverSettings, process: DriverProcess) -> None:
        """Records the end of a process, and those of its helpers."""
        self.helpers_died(settings, process)
        self._investigator.process_died(self._crashed(settings), process.end, process.breadcrumbs)

    def helpers_died(self, settings: DriverSettings, process: DriverProcess) -> None:
        """Records the ends of a process's helpers that are not known yet."""
        process.helper_deaths, deaths = read_helper_deaths(process.breadcrumbs, process.helper_deaths)
        self._investigator.helpers_died(self._crashed(settings), deaths, process.breadcrumbs)

    def _crashed(self, settings: DriverSettings) -> CrashedDriver:
        return CrashedDriver(
            name=self._name,
            driver=settings.driver,
            address=self._address,
            sandbox=settings.sandbox,
            writable=settings.writable,
            readable=settings.readable,
            environment=settings.environment,
        )
