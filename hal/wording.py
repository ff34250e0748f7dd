"""Words of messages and explanations."""


def counted(count: int, noun: str) -> str:
    """Returns a number with its noun, such as `1 input` or `3 inputs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
