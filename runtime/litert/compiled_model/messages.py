"""The form of the messages of LiteRT's CompiledModel."""


def coded(code: int, message: str) -> str:
    """Returns the message of an error with LiteRT's code for it."""
    return f"CompiledModel error: code={code}, message={message}"
