"""What endpoints differ in, as data; and what they refused, learnt from their own words.

A field that an endpoint refuses by name is left out from then on, per base URL and process.
"""

import re
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Literal
from urllib.parse import urlsplit

CallIdForm = Literal["own", "nine_alphanumerics"]
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True, slots=True)
class EndpointProfile:
    """The knobs of one kind of endpoint; the defaults suit an unknown one."""

    max_tokens_field: MaxTokensField = "max_tokens"
    asks_for_usage: bool = True
    """Send `stream_options.include_usage`."""
    call_ids: CallIdForm = "own"
    """Mistral accepts only ids of nine letters and digits."""
    names_tool_results: bool = False
    """Repeat the tool's name in its result message."""
    returns_reasoning: bool = False
    """Give reasoning back in the field it came in; some endpoints need it, some refuse it."""

    def as_data(self) -> dict[str, str | bool]:
        """The knobs as plain values, to be stored with a request."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, str | bool]) -> "EndpointProfile":
        """The profile that `as_data` described; knobs of other releases are left out."""
        known = {knob.name for knob in fields(cls)}
        values: dict[str, Any] = {name: value for name, value in data.items() if name in known}
        return cls(**values)


DEFAULT: Final = EndpointProfile()
_OPENAI: Final = EndpointProfile(max_tokens_field="max_completion_tokens")
_REASONING: Final = EndpointProfile(returns_reasoning=True)
_BY_HOST: Final[dict[str, EndpointProfile]] = {
    "api.openai.com": _OPENAI,
    "openai.azure.com": _OPENAI,
    "api.mistral.ai": EndpointProfile(
        asks_for_usage=False, call_ids="nine_alphanumerics", names_tool_results=True
    ),
    "api.deepseek.com": _REASONING,
    "api.moonshot.ai": _REASONING,
    "api.moonshot.cn": _REASONING,
    "api.minimax.io": _REASONING,
    "api.z.ai": _REASONING,
    "openrouter.ai": _REASONING,
}

_REFUSED: Final = re.compile(
    r"not supported|unsupported|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed"
    r"|extra (?:inputs|fields)|forbidden|additional propert|invalid (?:parameter|argument|field)",
    re.IGNORECASE,
)
_FIELDS: Final = re.compile(
    r"\b(stream_options|include_usage|max_completion_tokens|max_tokens|reasoning_content)\b"
)


def profile_for(base_url: str) -> EndpointProfile:
    """The profile of the host, or of the domain it belongs to."""
    host = urlsplit(base_url).hostname or ""
    known = (known for known in _BY_HOST if host == known or host.endswith(f".{known}"))
    return _BY_HOST.get(next(known, ""), DEFAULT)


@dataclass(slots=True)
class Refusals:
    """Fields that base URLs have refused, for as long as the process lives."""

    _fields: dict[str, frozenset[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def applied_to(self, profile: EndpointProfile, base_url: str) -> EndpointProfile:
        """The profile without what the base URL has refused."""
        refused = self._fields.get(base_url, frozenset())
        if refused & {"stream_options", "include_usage"}:
            profile = replace(profile, asks_for_usage=False)
        if "reasoning_content" in refused:
            profile = replace(profile, returns_reasoning=False)
        other: MaxTokensField | None = None
        if profile.max_tokens_field in refused:
            is_old = profile.max_tokens_field == "max_tokens"
            other = "max_completion_tokens" if is_old else "max_tokens"
        if other is not None and other not in refused:
            profile = replace(profile, max_tokens_field=other)
        return profile

    def learn(self, base_url: str, body: bytes, message: str) -> str | None:
        """The field that the message of a 400 or 422 refuses, if it was sent and is news."""
        found = _FIELDS.search(message)  # the first one named: the second may be the advice
        if found is None or not _REFUSED.search(message) or found[1].encode() not in body:
            return None
        with self._lock:
            known = self._fields.get(base_url, frozenset())
            if found[1] in known:
                return None
            self._fields[base_url] = known | {found[1]}
        return found[1]


PROCESS_REFUSALS: Final = Refusals()
