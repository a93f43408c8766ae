"""What differs between a wanted and a real result; "$gen" stands for any new, unique id."""

from typing import Any

_CALL_KEYS = ("name", "arguments", "status", "extra", "recovered", "replay_name")


def differences(expect: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """One line for each difference; none if the result is right."""
    keys = ("text", "reasoning", "usage", "finish")
    found = [f"{key}: want {expect[key]!r}, got {got.get(key)!r}"
             for key in keys if expect[key] != got.get(key)]  # fmt: skip
    if "extra" in expect and expect["extra"] != got.get("extra"):
        found.append(f"extra: want {expect['extra']!r}, got {got.get('extra')!r}")
    found += _error_differences(expect, got)
    wanted, calls = expect["tool_calls"], got.get("tool_calls") or []
    if len(wanted) != len(calls):
        return [*found, f"tool_calls: want {len(wanted)}, got {len(calls)}"]
    used = list((expect.get("request") or {}).get("ids_already_used") or [])
    for number, (want, call) in enumerate(zip(wanted, calls, strict=True)):
        found += _call_differences(number, want, call, used)
        used.append(call.get("id"))
    return found


def _error_differences(expect: dict[str, Any], got: dict[str, Any]) -> list[str]:
    want, error = expect["error"], got.get("error")
    if (want is None) != (error is None):
        return [f"error: want {want!r}, got {error!r}"]
    if not want or not error:
        return []
    found = [f"error.{key}: want {want[key]!r}, got {error.get(key)!r}"
             for key in ("class", "retryable") if want[key] != error.get(key)]  # fmt: skip
    delay, real = want["retry_after_s"], error.get("retry_after_s")
    if (delay is None) != (real is None) or (delay is not None and abs(delay - real) > 0.01):
        found.append(f"error.retry_after_s: want {delay!r}, got {real!r}")
    words = expect.get("message_contains")
    if words and words not in str(error.get("message", "")):
        found.append(f"error.message lacks {words!r}")
    return found


def _call_differences(
    number: int, want: dict[str, Any], call: dict[str, Any], used: list[Any]
) -> list[str]:
    found = []
    model_id = call.get("id")
    if not model_id or model_id in used or (want["id"] != "$gen" and model_id != want["id"]):
        found.append(f"call {number} id: want {want['id']!r}, got {model_id!r}")
    for key in _CALL_KEYS:
        if key in want and want[key] != call.get(key):
            found.append(f"call {number} {key}: want {want[key]!r}, got {call.get(key)!r}")
    return found
