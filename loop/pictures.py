"""Pictures that results bring: what may be one, and how it stands in a request."""

import base64
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

    @property
    def data_url(self) -> str:
        """The picture as text, in the form that both wires take."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.body).decode('ascii')}"
