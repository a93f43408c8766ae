"""Pictures that results bring, for models that take them."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

PictureType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
"""What every endpoint that takes pictures can read."""

PICTURE_TYPES: Final[tuple[PictureType, ...]] = get_args(PictureType)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a result."""

    media_type: PictureType
    body: bytes
