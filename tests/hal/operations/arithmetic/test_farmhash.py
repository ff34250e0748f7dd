import numpy as np
from support.sweeps import sweep

from neurald.hal.operations.arithmetic.farmhash import fingerprint64


def key(length: int) -> bytes:
    return bytes((7 * position + position // 5 + 3) % 256 for position in range(length))


#: Fingerprints of `key` by its length, computed with Google's FarmHash.
KNOWN = {
    0: 0x9AE16A3B2F90404F,
    1: 0xBEC09CC447469D8B,
    2: 0x16F8263645A8ECF5,
    3: 0x40B4412E33EEFD64,
    4: 0xF3C7EE05197A7B92,
    7: 0xEA9473609527DBBA,
    8: 0xD399199753B07A2F,
    9: 0x8EAB84E9E8FF3CEC,
    15: 0xAED8509E28ABFCE5,
    16: 0xDC991969E702459E,
    17: 0x73F1BFFD56354B48,
    24: 0x3DC66667F0B6B8DD,
    31: 0x53E7B8C00807FC50,
    32: 0xCF0250899D4F50B5,
    33: 0x77E0303F32D863AC,
    48: 0xB538436C7F8B5354,
    63: 0x1153CEA43094CF4B,
    64: 0x9172B5C148F59870,
    65: 0x114F9A4BA195C239,
    100: 0x4843E1EF43A9B5BF,
    127: 0xB772CC4D25C82A24,
    128: 0xC9043455E1CA0C71,
    129: 0x68EB1B1BA9940410,
    192: 0x427C9DB01BE90FC0,
    1000: 0x8F666FD1DA9F8C4C,
}


@sweep(("length", "fingerprint"), KNOWN.items())
def test_known_fingerprints(length: int, fingerprint: int) -> None:
    keys = np.frombuffer(key(length), np.uint8).reshape(1, length)
    result = fingerprint64(keys)
    assert result.dtype == np.uint64
    assert result.tolist() == [fingerprint]


@sweep(
    ("text", "fingerprint"),
    [
        # From the documentation of BigQuery's FARM_FINGERPRINT.
        ("1footrue", -1541654101129638711),
        ("2applefalse", 2794438866806483259),
        ("3true", -4880158226897771312),
    ],
)
def test_published_fingerprints(text: str, fingerprint: int) -> None:
    keys = np.frombuffer(text.encode(), np.uint8)[np.newaxis]
    assert fingerprint64(keys).astype(np.int64).tolist() == [fingerprint]


@sweep("length", [0, 2, 5, 11, 20, 50, 64, 65, 200])
def test_keys_are_hashed_independently(length: int) -> None:
    keys = np.random.default_rng(length).integers(0, 256, (40, length)).astype(np.uint8)
    one_by_one = [int(fingerprint64(row[np.newaxis])[0]) for row in keys]
    assert fingerprint64(keys).tolist() == one_by_one
    assert fingerprint64(keys[:0]).shape == (0,)
