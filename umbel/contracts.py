"""Values that cross a process border, and the ids they carry."""

import os
import time
from typing import Final, NewType

from pydantic import BaseModel, ConfigDict

RunId = NewType("RunId", str)
ThreadId = NewType("ThreadId", str)
CallId = NewType("CallId", str)
WorkerId = NewType("WorkerId", str)
DeliveryId = NewType("DeliveryId", str)

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: sorts as it counts
_RANDOM_BITS: Final = 80
_LENGTH: Final = 26  # 48 bits of milliseconds and 80 random bits, five bits a character


class Frozen(BaseModel):
    """Base of every value that is stored or sent: immutable, closed, strictly typed.

    Parse it from JSON text (`model_validate_json`): strict validation of Python objects refuses
    the lists that JSON columns arrive as.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Principal(Frozen):
    """Who acts: always from authentication, never from a request body or a model's text."""

    tenant: str
    user: str


def new_id(prefix: str) -> str:
    """A fresh id such as `run_01k9…`: sorts by creation time to the millisecond, 80 random bits."""
    number = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | int.from_bytes(os.urandom(10), "big")
    digits = (_ALPHABET[number >> shift & 31] for shift in range(5 * (_LENGTH - 1), -1, -5))
    return f"{prefix}_{''.join(digits)}"
