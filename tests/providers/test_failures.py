from typing import Any

import pytest

from providers.failures import failure_of
from tests.providers.wire import end, event, read, read_body, text


def classed(status: int | None, body: Any, **headers: str) -> tuple[str, bool, float | None]:
    found = failure_of(status, {k.replace("_", "-"): v for k, v in headers.items()}, body)
    return found.error_class, found.is_retryable, found.retry_after_seconds


def said(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 400, "message": "the request exceeds the available context size",
                   "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 4096}},
        said("x", n_prompt_tokens=9000, n_ctx=4096),
        said("prompt is too long: 210000 tokens > 200000 maximum", type="invalid_request_error"),
        said("The input token count (1200000) exceeds the maximum number of tokens allowed."),
        said("Input is too long for requested model."),
        said("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
        said("This endpoint's maximum context length is 8192 tokens."),
        said("max_tokens is too large: 5000. This model's maximum context length is 4096 tokens."),
        said("This model's maximum prompt length is 131072 but 537812 were sent."),
        said("decoder prompt is longer than the maximum model length of 4096"),
        said("prompt token count of 300000 exceeds the limit of 128000"),
        said("Trying to keep the first 5000 tokens when context the overflows."),
        said("`inputs` tokens + `max_new_tokens` must be <= 4096"),
        {"detail": "Please reduce the length of the messages."},
        [{"error": {"code": 400, "message": "context window exceeds limit"}}],
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", [400, 413, 422])
def test_too_long_a_request_is_recognised_in_every_wording(status: int, body: Any) -> None:
    assert classed(status, body) == ("context_length", False, None)


@pytest.mark.parametrize(
    ("status", "body", "wanted"),
    [
        (400, said("max_tokens is too large: 100000. This model supports at most 16384 completion "
                   "tokens, whereas you provided 100000."), "bad_request"),
        (400, said("Invalid 'messages[1].tool_calls[0].id': string too long.",
                   code="string_above_max_length"), "bad_request"),
        (404, said("The model `x` does not exist", code="model_not_found"), "bad_request"),
        (422, {"detail": [{"msg": "Extra inputs are not permitted"}]}, "bad_request"),
        (400, said("filtered", code="content_filter",
                   innererror={"code": "ResponsibleAIPolicyViolation"}), "content_filter"),
        (400, said("x", innererror={"code": "ResponsibleAIPolicyViolation"}), "content_filter"),
        (403, said("flagged", code=403, metadata={"reasons": ["x"], "flagged_input": "y"}),
         "content_filter"),
        (402, said("Insufficient credits"), "quota"),
        (400, said("Your credit balance is too low to access the API."), "quota"),
        (429, said("x", code="billing_hard_limit_reached"), "quota"),
        (401, said("Incorrect API key provided", code="invalid_api_key"), "auth"),
        (403, "<html><title>Forbidden</title></html>", "auth"),
        (400, said("API key not valid.", details=[{"reason": "API_KEY_INVALID"}]), "auth"),
        (413, "<html><title>413 Request Entity Too Large</title></html>", "context_length"),
        (500, said("context length"), "server"),
        (400, "", "bad_request"),
        (418, "teapot", "bad_request"),
    ],
)  # fmt: skip
def test_failure_that_repeating_cannot_heal(status: int, body: Any, wanted: str) -> None:
    found = classed(status, body, retry_after="3")
    assert found[0] == wanted
    if wanted != "server":
        assert found[1:] == (False, None)


@pytest.mark.parametrize(
    ("status", "body", "wanted"),
    [
        (408, "", "server"), (409, said("conflict"), "server"), (500, None, "server"),
        (503, "<html>", "server"), (529, said("Overloaded", type="overloaded_error"), "server"),
        (429, "", "rate_limit"), (429, said("You exceeded your current quota"), "rate_limit"),
        (429, said("Limit 30000, Used 29000, Requested 2000."), "rate_limit"),
        (503, said("x", code="rate_limit_exceeded"), "rate_limit"),
    ],
)  # fmt: skip
def test_failure_that_time_may_heal(status: int, body: Any, wanted: str) -> None:
    assert classed(status, body) == (wanted, True, None)


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry_after": "2"}, "", 2.0),
        ({"retry_after": "0.5"}, "", 0.5),
        ({"retry_after": "-5"}, "", 0.0),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:30 GMT",
          "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, "", 30.0),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, "", 0.0),
        ({"retry_after": "soon"}, "", None),
        ({"retry_after_ms": "250", "retry_after": "9"}, "", 0.25),
        ({}, said("Please try again in 7.5s."), 7.5),
        ({}, said("Please try again in 1m2s. Visit the site."), 62.0),
        ({}, said("Please try again in 120ms."), 0.12),
        ({}, said("Please retry after 10 seconds."), 10.0),
        ({}, said("Please retry in 18.5s."), 18.5),
        ({}, said("Please try again in 2h3m4.5s"), 7384.5),
        ({}, said("x", details=[{"@type": "RetryInfo", "retryDelay": "36s"}]), 36.0),
        ({}, said("Try again later."), None),
    ],
)  # fmt: skip
def test_delay_is_read_wherever_it_is_given(
    headers: dict[str, str], body: Any, seconds: float | None
) -> None:
    found = classed(429, body, **headers)[2]
    assert found == (pytest.approx(seconds) if seconds is not None else None)


def test_quota_per_minute_is_a_rate_limit_with_its_delay() -> None:
    details = [{"violations": [{"quotaId": "GenerateRequestsPerMinutePerProject"}]},
               {"retryDelay": "12s"}]  # fmt: skip
    error = said("quota", status="RESOURCE_EXHAUSTED", code=429, details=details)
    assert classed(429, [error]) == ("rate_limit", True, 12.0)


@pytest.mark.parametrize(
    ("frame", "wanted"),
    [
        (
            event({"error": {"message": "The server had an error", "type": "server_error"}}),
            "server",
        ),
        (event({"error": "overloaded"}), "server"),
        (event({"error": {"message": "slow", "code": "429"}}), "rate_limit"),
        (event({"error": {"message": "Rate limit reached"}}), "rate_limit"),
        (event({"error": {"message": "bad", "type": "invalid_request_error"}}), "bad_request"),
        (event({"error": {"message": "maximum context length is 5"}}), "context_length"),
        (event({"object": "error", "message": "bad", "code": 400}), "bad_request"),
        (event({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}), "server"),
        (event({"code": 503, "message": "busy"}), "server"),
        (event({"detail": "Internal error"}), "server"),
        (event([{"error": {"code": 400, "message": "x"}}]), "bad_request"),
        (b"event: error\ndata: upstream gone\n\n", "server"),
    ],
)
def test_error_inside_a_good_stream_is_found_and_the_text_kept(frame: bytes, wanted: str) -> None:
    turn = read(text("Work"), frame, end())
    assert turn.failure is not None
    assert (turn.failure.error_class, turn.text, turn.finish) == (wanted, "Work", None)


def test_message_of_every_body_survives() -> None:
    bodies: list[Any] = [{"detail": "m1"}, [{"error": {"message": "m1"}}], "m1", {"error": "m1"},
              {"error": {"details": "m1"}}, {"message": "m1"},
              {"detail": [{"msg": "m1"}]}]  # fmt: skip
    assert all("m1" in failure_of(400, {}, body).message for body in bodies)
    page = "<html><head><title>502 Bad Gateway</title><style>x</style></head></html>"
    assert failure_of(502, {}, page).message == "502 Bad Gateway"


def test_upstream_error_passed_on_as_text_is_read() -> None:
    raw = '{"error":{"code":"insufficient_quota","message":"x"}}'
    error = said("Provider returned error", code=429, metadata={"raw": raw})
    assert classed(429, error)[0] == "quota"


def test_error_body_with_a_good_status_is_a_failure() -> None:
    bodies: list[Any] = [{"error": {"message": "x", "code": 500}}, {"detail": "x"}, [{"error": {}}]]
    for body in bodies:
        turn = read_body(body)
        assert turn.failure is not None
        assert turn.failure.error_class == "server"
