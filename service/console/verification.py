"""Shows the results of verification."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import neurald as nd
from neurald.hal.errors import OpFailed

#: How long to wait for a search.
_SEARCH_S: Final = 300.0


def describe_verification(compilation: nd.Compilation) -> list[dict[str, Any]]:
    """Describes for each verified step how many runs were verified, and what was found.

    Waits for searches for the operations that are wrong.
    """
    compilation.wait_until_investigated(_SEARCH_S)
    return [
        {
            "step": each.step,
            "device": each.device,
            "runs": each.runs,
            "verified": each.verified,
            "is_wrong": each.is_wrong,
            "finding": each.finding,
        }
        for each in compilation.verifications
    ]


def verification_sentence(found: Mapping[str, Any]) -> str:
    """Returns one of the descriptions as a sentence."""
    return (
        f"{found['verified']} of {found['runs']} runs of step {found['step']} on {found['device']} were "
        f"verified: {found['finding'] or 'all were right'}"
    )


def require_right(found: Sequence[Mapping[str, Any]]) -> None:
    """Raises OpFailed if a device was found to be wrong.

    The outputs are those of the CPU device.
    """
    wrong = [verification_sentence(each) for each in found if each["is_wrong"]]
    if wrong:
        raise OpFailed("; ".join(wrong))
