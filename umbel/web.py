"""The web as a tool sees it: `umbel.tool.ToolContext.web`."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol


class WebAnswer(Protocol):
    """What a web server answered."""

    @property
    def url(self) -> str:
        """Where it came from, after redirects."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by name in lower case."""
        ...

    def pieces(self, limit_bytes: int) -> Iterator[bytes]:
        """The body as it was before compression, once.

        Raises:
            ToolFailed: it has more than `limit_bytes`, or breaks off.
        """
        ...


class Web(Protocol):
    """Public web servers, and those that `UMBEL_WEB_ALLOW` names; no name or redirect leads out."""

    def open(self, url: str, *, accept: str = "*/*") -> AbstractContextManager[WebAnswer]:
        """The answer to a GET, after at most five redirects; closed at the end of the block.

        Raises:
            InvalidInput: the URL, or a redirect, leads where nothing may be read.
            NotFound: there is no such page.
            ToolFailed: the server cannot be reached, is silent, or answers with a failure.
        """
        ...
