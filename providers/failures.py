"""Which of our error classes an endpoint's error is, and whether sending the same again may help.

Read from status, body and headers together: codes are often missing, and prose lies ("quota" stands
in ordinary rate limits). The order of the rules decides; the first that fits wins.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from loop.response import ErrorClass, Failure
from providers.retry_after import asked_delay_seconds
from providers.shapes import JsonObject, NotJson, as_list, as_number, as_object, as_text, read_json
from providers.storable import storable
from umbel.strict_json import Json

_MESSAGE_CHARS: Final = 2_000
_READ_CHARS: Final = 20_000  # a page is no error message
_RETRYABLE: Final[frozenset[ErrorClass]] = frozenset(("rate_limit", "server", "model_output"))
_MESSAGE_KEYS: Final = (
    "message", "detail", "details", "msg", "error_message", "error_msg", "error",
)  # fmt: skip
_CODE_KEYS: Final = ("code", "type", "status", "error_code", "error_type")

_FILTER_CODES: Final = frozenset((
    "content_filter", "content_filter_error", "content_policy_violation", "data_inspection_failed",
    "responsibleaipolicyviolation", "content_filtered", "prohibited_content", "sensitive",
    "moderation_blocked", "bio_policy", "cyber_policy", "misalignment_policy_violation",
    "image_content_policy_violation",
))  # fmt: skip
_CONTEXT_CODES: Final = frozenset((
    "context_length_exceeded", "exceed_context_size_error", "context_window_exceeded",
    "request_too_large", "max_context_length_exceeded", "input_too_long", "context_size_exceeded",
    "model_context_window_exceeded", "tokens_limit_reached",
))  # fmt: skip
_QUOTA_CODES: Final = frozenset((
    "insufficient_quota", "billing_hard_limit_reached", "billing_not_active",
    "insufficient_balance", "exceeded_current_quota_error", "insufficient_user_quota",
    "insufficient_credits",
    "access_terminated", "payment_required", "quota_exceeded", "account_deactivated",
))  # fmt: skip
_RATE_CODES: Final = frozenset((
    "rate_limit_exceeded", "rate_limit_error", "rate_limited", "too_many_requests",
    "resource_exhausted", "rate_limit", "rate_limit_reached_error", "throttlingexception",
    "engine_overloaded_error",
))  # fmt: skip
_AUTH_CODES: Final = frozenset((
    "invalid_api_key", "authentication_error", "permission_error", "unauthorized", "forbidden",
    "unauthenticated", "permission_denied", "api_key_invalid", "invalid_authentication_error",
    "authenticationerror",
))  # fmt: skip
_REQUEST_CODES: Final = frozenset((
    "invalid_request_error", "badrequesterror", "bad_request", "invalid_argument",
    "not_found_error", "model_not_found", "invalid_request", "unsupported_parameter",
    "validation_error", "notfounderror", "unsupported_value", "invalid_prompt",
    "data_residency_mismatch", "invalid_image", "invalid_image_format", "invalid_base64_image",
    "invalid_image_url", "invalid_image_mode", "image_too_large", "image_too_small",
    "image_parse_error", "image_file_too_large", "unsupported_image_media_type",
    "empty_image_file", "failed_to_download_image", "image_file_not_found",
))  # fmt: skip

_FLAGGED: Final = re.compile(r"flagged as potentially violating|content management policy", re.I)
_CONTEXT_WORDS: Final = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|maximum context|context the overflows"
    r"|maximum prompt length|maximum model length|max_model_len|range of input length"
    r"|prompt (?:is )?too long|input (?:is )?too long|(?:input|prompt) token count|`inputs`"
    r"|(?:too many|exceeds?|over|above)[^.]{0,40}\b(?:input|prompt) tokens|prompt exceeds"
    r"|reduce the length of|reduce your (?:message|prompt)|request (?:entity )?too large"
    r"|payload too large|exceeds? the (?:maximum|max|model'?s?)[^.]{0,40}\b(?:input|prompt|context)"
    r"|too large for model|total number of tokens|request_too_large|too many tokens",
    re.IGNORECASE,
)
_OUTPUT_CAP: Final = re.compile(
    r"maximum (?:allowed )?(?:number of )?output tokens|max(?:imum)? output token"
    r"|(?:supports|allows) at most \d+ (?:completion|output)|range of max_tokens",
    re.IGNORECASE,
)
_LIMIT_REQUESTED: Final = re.compile(
    r"limit:?\s*([\d,]+).{0,80}?requested:?\s*([\d,]+)", re.IGNORECASE | re.DOTALL
)
_CREDIT_WORDS: Final = re.compile(
    r"credit balance is too low|insufficient (?:balance|credit)", re.IGNORECASE
)
_RATE_WORDS: Final = re.compile(r"rate limit|too many requests", re.IGNORECASE)
_PER_DAY: Final = re.compile(r"per[_ -]?day|daily", re.IGNORECASE)
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_TAGS: Final = re.compile(r"<(?:style|script).*?</(?:style|script)>|<[^>]+>", re.I | re.S)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the rules look at."""

    status: int | None
    codes: frozenset[str]
    message: str
    prose: str
    error: JsonObject
    body: JsonObject


def failure_of(status: int | None, headers: Mapping[str, str], body: Json) -> Failure:
    """The failure an error body means.

    Args:
        status: the HTTP status; below 400 or None for an error inside an answer that began well.
        headers: of the answer, names in lower case.
        body: parsed JSON, or the text itself where it is none.
    """
    facts = _facts_of(status, body)
    error_class = next(found for rule in _RULES if (found := rule(facts)) is not None)
    is_retryable = error_class in _RETRYABLE
    delay = asked_delay_seconds(headers, facts.error, facts.prose) if is_retryable else None
    return Failure(
        error_class=error_class,
        is_retryable=is_retryable,
        retry_after_seconds=delay,
        http_status=status,
        message=storable(facts.message)[0][:_MESSAGE_CHARS],
    )


def is_error(body: Json, event: str = "") -> bool:
    """True if a data event, or the whole body of an answer with a good status, is an error."""
    if event == "error" or isinstance(body, list):
        return True
    answer = as_object(body)
    if answer.get("error") or answer.get("object") == "error" or answer.get("type") == "error":
        return True
    if answer.get("choices") or "usage" in answer:
        return False
    code = _status_in(answer)
    has_words = any(as_text(answer.get(key)) for key in ("message", "detail", "details", "msg"))
    return has_words and (code is not None or set(answer) <= {"detail", "message", "msg"})


def _facts_of(status: int | None, body: Json) -> _Facts:
    whole = as_object(next(iter(body), None)) if isinstance(body, list) else as_object(body)
    inner = whole.get("error")
    error = inner if isinstance(inner, dict) else whole
    words = inner if isinstance(inner, str) else body if isinstance(body, str) else ""
    message = words or next((_words(error.get(key)) for key in _MESSAGE_KEYS if error.get(key)), "")
    message = _without_html(message) or f"The endpoint answered {status or 'with an error'}."
    metadata = as_object(error.get("metadata"))
    raw = as_text(metadata.get("raw"))
    codes = _codes_of(error) | _codes_of(as_object(error.get("innererror"))) | _codes_in(raw)
    details = [as_object(item) for item in as_list(error.get("details"))]
    codes |= {as_text(item.get("reason")).lower() for item in details}
    if status is None or status < 400:
        status = _status_in(error) or _status_in(whole)
    prose = f"{message} {raw[:_READ_CHARS]}"
    return _Facts(status, frozenset(codes - {""}), message, prose, error, whole)


def _codes_in(raw: str) -> set[str]:
    """Codes of an upstream error that a router passes on as text."""
    if not raw.lstrip().startswith("{"):
        return set()
    try:
        upstream = as_object(read_json(raw))
    except NotJson:
        return set()
    upstream = as_object(upstream.get("error")) or upstream
    return _codes_of(upstream)


def _codes_of(error: JsonObject) -> set[str]:
    return {as_text(error.get(key)).lower() for key in _CODE_KEYS}


def _status_in(error: JsonObject) -> int | None:
    """An HTTP status given inside a body."""
    keys = ("code", "status", "status_code", "http_status")
    numbers = (as_number(error.get(key)) for key in keys)
    return next((number for number in numbers if number and 400 <= number <= 599), None)


def _words(value: Json) -> str:
    if isinstance(value, str):
        return value
    items = [as_object(item) for item in as_list(value)]
    parts = [as_text(item.get("msg")) or as_text(item.get("message")) for item in items]
    return "; ".join(part for part in parts if part)


def _without_html(text: str) -> str:
    text = text[:_READ_CHARS]
    if "<" not in text:
        return text.strip()
    title = _TITLE.search(text)
    return " ".join(_TAGS.sub(" ", title[1] if title else text).split())


def _filtered(facts: _Facts) -> ErrorClass | None:
    choice = as_object(next(iter(as_list(facts.body.get("choices"))), None))
    is_filtered = (
        facts.codes & _FILTER_CODES
        or _FLAGGED.search(facts.prose)
        or choice.get("finish_reason") == "content_filter"
        or "flagged_input" in as_object(facts.error.get("metadata"))
    )
    return "content_filter" if is_filtered else None


def _bad_call(facts: _Facts) -> ErrorClass | None:
    return "model_output" if "tool_use_failed" in facts.codes else None


def _context_by_number(facts: _Facts) -> ErrorClass | None:
    given = as_number(facts.error.get("n_prompt_tokens"))
    window = as_number(facts.error.get("n_ctx"))
    if facts.codes & _CONTEXT_CODES or (given and window and given >= window):
        return "context_length"
    found = _LIMIT_REQUESTED.search(facts.prose)
    if found is None:
        return None
    limit, requested = (int(number.replace(",", "") or 0) for number in found.groups())
    return "context_length" if requested > limit > 0 else None


def _quota(facts: _Facts) -> ErrorClass | None:
    violations = [
        as_text(as_object(violation).get("quotaId"))
        for item in as_list(facts.error.get("details"))
        for violation in as_list(as_object(item).get("violations"))
    ]
    is_spent = (
        facts.status == 402
        or facts.codes & _QUOTA_CODES
        or any(_PER_DAY.search(violation) for violation in violations)
        or (facts.status in (400, 403) and _CREDIT_WORDS.search(facts.prose))
    )
    return "quota" if is_spent else None


def _rate(facts: _Facts) -> ErrorClass | None:
    is_slow_down = (
        facts.status == 429
        or facts.codes & _RATE_CODES
        or (facts.status is None and _RATE_WORDS.search(facts.prose))
    )
    return "rate_limit" if is_slow_down else None


def _context_by_words(facts: _Facts) -> ErrorClass | None:
    if facts.status not in (None, 400, 413, 422) or _is_output_cap(facts.prose):
        return None
    return "context_length" if facts.status == 413 or _CONTEXT_WORDS.search(facts.prose) else None


def _is_output_cap(prose: str) -> bool:
    """About max_tokens above what the model can write at most: a shorter prompt changes nothing."""
    return bool(_OUTPUT_CAP.search(prose)) and "context" not in prose.lower()


def _auth(facts: _Facts) -> ErrorClass | None:
    is_refused = facts.status in (401, 403, 407) or facts.codes & _AUTH_CODES
    return "auth" if is_refused else None


def _server_or_request(facts: _Facts) -> ErrorClass:
    status = facts.status
    if status is None:
        return "bad_request" if facts.codes & _REQUEST_CODES else "server"
    return "server" if status in (408, 409, 424, 425, 499) or status >= 500 else "bad_request"


_RULES: Final[tuple[Callable[[_Facts], ErrorClass | None], ...]] = (
    _filtered,
    _bad_call,
    _context_by_number,
    _quota,
    _rate,
    _context_by_words,
    _auth,
    _server_or_request,
)
