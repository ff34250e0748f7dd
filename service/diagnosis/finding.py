"""Findings of a diagnosis, and how much they matter."""

from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """The weight of a finding.

    OK is as it should be, a NOTE restricts what can be done here, a WARNING will probably cause
    trouble, and a PROBLEM already does.
    """

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A fact about this machine, the installation, or a device.

    Attributes:
        subject: the thing that was examined.
        found: what there is.
        severity: how much it matters.
        advice: what to do about it; empty if nothing needs to be done.
    """

    subject: str
    found: str
    severity: Severity = Severity.OK
    advice: str = ""

    @classmethod
    def judged(
        cls, subject: str, found: str, *, is_right: bool, severity: Severity, advice: str
    ) -> "Finding":
        """Returns a finding that is OK if something is right, or else has a severity and advice."""
        if is_right:
            return cls(subject=subject, found=found)
        return cls(subject=subject, found=found, severity=severity, advice=advice)
