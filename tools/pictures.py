"""Pictures of results: taken out of the value before its text is stored.

A result `{"images": [{"media_type": "image/png", "b64": "…"}], …}` (or `"data"` with bytes) keeps
everything else, and of each picture what it is: type, size and hash. The bytes go their own way, to
models that take pictures.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from loop.pictures import Picture, PictureType
from tools.encoding import NotJson

MAX_PICTURES: Final = 8
"""Of one result."""
MAX_PICTURE_BYTES: Final = 5 * 1024 * 1024
"""Of one picture: what the strictest endpoints take."""
_CONTENT: Final = ("b64", "data")
_WEBP_MARK: Final = slice(8, 12)
_MAGIC: Final[tuple[tuple[bytes, PictureType], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def split_pictures(value: object) -> tuple[object, tuple[Picture, ...]]:
    """The value with every picture replaced by what it is, and the pictures in order.

    Raises:
        NotJson: a picture is not what it is said to be, too large, or one too many.
    """
    entries = _entries_of(value)
    if not entries or not isinstance(value, Mapping):
        return value, ()
    if len(entries) > MAX_PICTURES:
        raise NotJson(f"the result has {len(entries)} pictures, at most {MAX_PICTURES} are kept")
    pictures = tuple(_picture_of(entry, at) for at, entry in enumerate(entries, 1))
    described = [
        {key: item for key, item in entry.items() if key not in _CONTENT} | _facts_of(picture)
        for entry, picture in zip(entries, pictures, strict=True)
    ]
    return {**value, "images": described}, pictures


def _entries_of(value: object) -> list[Mapping[str, object]]:
    """The pictures of a result as it names them; none unless all of its `images` are some."""
    images = value.get("images") if isinstance(value, Mapping) else None
    if not isinstance(images, Sequence) or isinstance(images, str | bytes):
        return []
    entries = [item for item in images if isinstance(item, Mapping) and _has_content(item)]
    return entries if len(entries) == len(images) else []


def _has_content(item: Mapping[str, object]) -> bool:
    return isinstance(item.get("b64"), str) or isinstance(item.get("data"), bytes)


def _picture_of(entry: Mapping[str, object], at: int) -> Picture:
    body = _bytes_of(entry, at)
    if len(body) > MAX_PICTURE_BYTES:
        raise NotJson(
            f"picture {at} has {len(body)} bytes, at most {MAX_PICTURE_BYTES} are kept: "
            "return a smaller one"
        )
    found = _type_of(body)
    if found is None:
        raise NotJson(f"picture {at} is no PNG, JPEG, GIF or WebP")
    told = entry.get("media_type")
    if told not in (None, found):
        raise NotJson(f"picture {at} is {found} by its first bytes, and was said to be another")
    return Picture(found, body)


def _bytes_of(entry: Mapping[str, object], at: int) -> bytes:
    match entry:
        case {"data": bytes(data)}:
            return data
        case {"b64": str(text)}:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError) as error:
                raise NotJson(f"picture {at} is no base64") from error
        case _:
            raise AssertionError("only entries with content come here")


def _type_of(body: bytes) -> PictureType | None:
    """By the first bytes: what somebody says of a file is no evidence."""
    if body.startswith(b"RIFF") and body[_WEBP_MARK] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if body.startswith(magic)), None)


def _facts_of(picture: Picture) -> dict[str, object]:
    return {
        "media_type": picture.media_type,
        "size_bytes": len(picture.body),
        "sha256": hashlib.sha256(picture.body).hexdigest(),
    }
