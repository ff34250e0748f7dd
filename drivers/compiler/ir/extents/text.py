"""The spelling of extents in generated text and in messages."""

from typing import Final

#: Begins the name of an extent; what follows is a digest of its value.
NAME_PREFIX: Final = "%extent."
#: Regular expression of such a name.
NAME_PATTERN: Final = r"%extent\.[0-9a-f]+"
