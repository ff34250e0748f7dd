"""Encodes the lengths and tags of protobuf's messages."""


def encoded_varint(value: int) -> bytes:
    """Returns a number that is not negative as protobuf writes it, 7 bits in each byte."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
