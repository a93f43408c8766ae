"""What endpoints refused, learnt from their own words and remembered per base URL.

A field that an endpoint refuses by name is left out from then on: one attempt is lost, once.
"""

import re
import threading
from dataclasses import replace
from typing import Final, Protocol
from urllib.parse import urlsplit

from loop.response import Failure
from providers.profiles import EndpointProfile, MaxTokensField

_STATUSES: Final = frozenset((400, 404, 422))
_REFUSED: Final = re.compile(
    r"not supported|unsupported|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed"
    r"|extra (?:inputs|fields)|forbidden|additional propert|invalid (?:parameter|argument|field)"
    r"|not found|without its required",
    re.IGNORECASE,
)
_FIELDS: Final = re.compile(
    r"(?P<item_ids>\bItem (?:with id )?'rs_)|\b(?:(?P<stream_options>stream_options|include_usage)"
    r"|(?P<max_completion_tokens>max_completion_tokens)|(?P<max_tokens>max_tokens)"
    r"|(?P<reasoning_content>reasoning_content)|(?P<parallel_tool_calls>parallel_tool_calls)"
    r"|(?P<strict>strict)|(?P<prompt_cache_key>prompt_cache_key)"
    r"|(?P<encrypted_content>reasoning\.encrypted_content|encrypted[ _]content))\b",
    re.IGNORECASE,
)
_IN_BODY: Final = {
    "encrypted_content": b"reasoning.encrypted_content",
    "item_ids": b'"id":"rs_',
    "strict": b'"strict":',
}


class RefusalStore(Protocol):
    """Where refusals outlive a process; whoever shares it loses one attempt together, not each.

    Neither method may raise: a store that cannot be reached knows nothing and keeps nothing. Both
    may be called from many threads or greenlets. The address holds no credentials.
    """

    def load(self, address: str) -> frozenset[str]:
        """The fields that are known to be refused at an address; asked once per process."""
        ...

    def save(self, address: str, field: str) -> None:
        """Remember a refused field; saving it twice changes nothing."""
        ...


class ForgetfulStore:
    """The default store: what `Refusals` itself remembers ends with the process."""

    def load(self, address: str) -> frozenset[str]:  # noqa: ARG002 - it knows no address
        """Nothing."""
        return frozenset()

    def save(self, address: str, field: str) -> None:
        """Keeps nothing."""


class Refusals:
    """Fields that base URLs have refused."""

    def __init__(self, store: RefusalStore | None = None) -> None:
        self._store: RefusalStore = store or ForgetfulStore()
        self._fields: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()

    def applied_to(self, profile: EndpointProfile, base_url: str) -> EndpointProfile:
        """The profile without what the base URL has refused."""
        refused = self._known(_address_of(base_url))
        if not refused:
            return profile
        profile = replace(
            profile,
            asks_for_usage=profile.asks_for_usage and "stream_options" not in refused,
            returns_reasoning=profile.returns_reasoning and "reasoning_content" not in refused,
            sends_cache_key=profile.sends_cache_key and "prompt_cache_key" not in refused,
            returns_item_ids=profile.returns_item_ids and "item_ids" not in refused,
            asks_for_encrypted_reasoning=profile.asks_for_encrypted_reasoning
            and "encrypted_content" not in refused,
            max_tokens_field=_max_tokens_field(profile.max_tokens_field, refused),
        )
        if "parallel_tool_calls" in refused:
            profile = replace(profile, parallel_tool_calls="omit")
        return replace(profile, strict="omit") if "strict" in refused else profile

    def learn(self, base_url: str, body: bytes, failure: Failure) -> str | None:
        """The field that a failure refuses by name, if it was sent and is news.

        Only from refused requests: a request that is too large stays so without the field.
        """
        if failure.error_class != "bad_request" or failure.http_status not in _STATUSES:
            return None
        found = _FIELDS.search(failure.message)  # the first: the second may be the advice
        if found is None or not _REFUSED.search(failure.message):
            return None
        field = found.lastgroup or ""
        if _IN_BODY.get(field, field.encode()) not in body:
            return None
        address = _address_of(base_url)
        known = self._known(address)
        with self._lock:
            if field in known:
                return None
            self._fields[address] = self._fields.get(address, frozenset()) | {field}
        self._store.save(address, field)
        return field

    def _known(self, address: str) -> frozenset[str]:
        known = self._fields.get(address)
        if known is None:
            loaded = self._store.load(address)  # outside the lock: it may take a round trip
            with self._lock:
                known = self._fields.get(address, frozenset()) | loaded
                self._fields[address] = known
        return known


def _max_tokens_field(used: MaxTokensField, refused: frozenset[str]) -> MaxTokensField:
    other: MaxTokensField = "max_completion_tokens" if used == "max_tokens" else "max_tokens"
    return other if used in refused and other not in refused else used


def _address_of(base_url: str) -> str:
    """The base URL without user, password and query."""
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


PROCESS_REFUSALS: Final = Refusals()
