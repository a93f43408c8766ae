"""Keeps secrets out of what is logged: known values wherever they stand, others by their form.

What is logged may have been written to make this slow: patterns run in linear time, over a window.
"""

import json
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

MASK: Final = "***"
_SHORTEST: Final = 8
"""A shorter value is hidden only where its form shows a secret: it may be a word of every line."""
_WINDOW: Final = 16_384
_EDGE: Final = 2_048
"""As much is dropped from the end of a window that was cut: half a secret has no form."""

_FORMS: Final = (
    # scheme://user:password@host, with an `@` in the password as well
    (re.compile(r"(://[^\s/@:]*+:)(?:[^\s/@]*+@)++"), r"\1***@"),
    (
        re.compile(
            r"([Aa]uthorization[\"']?\s*+[:=]\s*+[\"']?(?:(?:[Bb]earer|[Bb]asic)\s++)?+)[^\s\"',;]++"
        ),
        r"\1***",
    ),
    (re.compile(r"([Bb]earer\s++)[^\s\"',;]++"), r"\1***"),
    (re.compile(r"\b(sk-|rk-|gh[pousr]_|xox[abprs]-|glpat-)[A-Za-z0-9_\-]{8,}+"), r"\1***"),
    (
        re.compile(
            r"((?:[Pp]assword|PASSWORD|[Ss]ecret|SECRET|[Tt]oken|TOKEN|[Aa]pi_?[Kk]ey|API_KEY)"
            r"[\"']?(?:=|: ?)[\"']?)[^\s\"'&,;]++"
        ),
        r"\1***",
    ),
)


class Redactor:
    """Masks secrets in text.

    Args:
        secrets: values that must not appear, in no spelling; empty and short ones are left to
            their form.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {
            spelling
            for secret in secrets
            if len(secret) >= _SHORTEST
            for spelling in (
                secret,
                quote(secret, safe=""),
                repr(secret)[1:-1],
                json.dumps(secret)[1:-1],
            )
        }
        self._spellings = sorted(spellings, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without secrets; of a very long one only its beginning."""
        masked = text[:_WINDOW]
        for spelling in self._spellings:
            masked = masked.replace(spelling, MASK)
        for form, replacement in _FORMS:
            masked = form.sub(replacement, masked)
        return masked if len(text) <= _WINDOW else masked[:-_EDGE] + "…"


def url_secrets(url: str | None) -> list[str]:
    """The passwords in an address, as they are and as they are spelled."""
    if not url:
        return []
    try:
        parts = urlsplit(url)
        found = [parts.password or "", *parse_qs(parts.query).get("password", [])]
    except ValueError:  # whoever connects says what is wrong with it
        return []
    return [spelling for password in found for spelling in {password, unquote(password)}]
