"""What endpoints differ in, as data. What they refuse is learnt in `providers.refusals`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from umbel.names import WireName

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"
"""Where a key without an address belongs."""
CallIdForm = Literal["own", "nine_alphanumerics"]
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]
Switch = Literal["omit", "on", "off"]


@dataclass(frozen=True, slots=True)
class EndpointProfile:
    """The knobs of one kind of endpoint; the defaults suit an unknown one.

    A new knob must be off by default: requests of earlier releases are written again without it.
    """

    max_tokens_field: MaxTokensField = "max_tokens"
    """In Chat Completions; the Responses API knows one name only."""
    asks_for_usage: bool = True
    """Send `stream_options.include_usage`; the Responses API reports usage unasked."""
    call_ids: CallIdForm = "own"
    """Mistral accepts only ids of nine letters and digits."""
    names_tool_results: bool = False
    """Repeat the tool's name in its result message."""
    returns_reasoning: bool = False
    """Give readable reasoning back in the form it came in; some endpoints need it, some refuse."""
    parallel_tool_calls: Switch = "omit"
    """Send `parallel_tool_calls` beside tools."""
    strict: Switch = "omit"
    """Send `strict` with every tool: `on` only for schemas that fit, `off` always."""
    sends_cache_key: bool = False
    """Send `prompt_cache_key`, so that requests of one conversation meet in one cache."""
    returns_item_ids: bool = True
    """Responses: give reasoning back with the id it came with; routers look such ids up."""
    asks_for_encrypted_reasoning: bool = True
    """Responses: `include` the encrypted reasoning that a stateless conversation needs."""

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
_AZURE: Final = EndpointProfile(max_tokens_field="max_completion_tokens")
_OPENAI: Final = replace(_AZURE, parallel_tool_calls="on", sends_cache_key=True)
_REASONING: Final = EndpointProfile(returns_reasoning=True)
_BY_HOST: Final[dict[str, EndpointProfile]] = {
    "api.openai.com": _OPENAI,
    "openai.azure.com": _AZURE,
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
_STRICT_UNLESS_TOLD: Final = frozenset(("api.openai.com", "openai.azure.com"))


def profile_for(base_url: str, wire: WireName = "chat") -> EndpointProfile:
    """The profile of the host, or of the domain it belongs to."""
    known = _known_host(base_url, _BY_HOST)
    profile = _BY_HOST.get(known, DEFAULT)
    if wire == "responses" and known in _STRICT_UNLESS_TOLD:
        # Left out there, a schema is made strict: optional arguments would become required.
        return replace(profile, strict="off")
    return profile


def default_wire(base_url: str) -> WireName:
    """The wire to speak where nobody chose one: Responses at OpenAI itself, else Chat."""
    return "responses" if _known_host(base_url, ("api.openai.com",)) else "chat"


def _known_host(base_url: str, known: Mapping[str, EndpointProfile] | tuple[str, ...]) -> str:
    host = urlsplit(base_url).hostname or ""
    return next((name for name in known if host == name or host.endswith(f".{name}")), "")
