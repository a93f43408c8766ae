"""How the run ended, what it delivered, what its log says."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tests.cases.found import Found
from tests.cases.matching import differs, fits, fits_pattern, texts
from tests.cases.record import case_status

REASONED: Final = ("paused", "failed", "cancelled")


def _status(found: Found, expected: Any) -> Iterator[str]:
    status, reason = case_status(found.record.run["status"], found.record.run["reason"])
    if not fits(status, expected):
        detail = found.record.run["detail"]
        yield f"status: expected {expected!r}, found {status!r} ({reason}: {detail})"


def _reason(found: Found, expected: Any) -> Iterator[str]:
    status, reason = case_status(found.record.run["status"], found.record.run["reason"])
    if status in REASONED:
        yield from differs("reason", reason, expected)


def _history(found: Found, expected: Sequence[Sequence[Any]]) -> Iterator[str]:
    seen = [list(pair) for pair in found.statuses]
    logged = [
        [event["kind"].removeprefix("run."), event["data"].get("reason")]
        for event in found.record.events
        if event["kind"].startswith("run.")
    ]
    for pair in expected:
        if list(pair) not in seen and list(pair) not in logged:
            yield f"status_history_contains: expected {list(pair)}, found {seen}"


def _messages(found: Found, expected: Sequence[str]) -> Iterator[str]:
    transcript = found.transcript()
    if not fits_pattern(transcript, expected):
        yield f"messages: expected {list(expected)}, found {transcript}"


def _final_text(found: Found, expected: Any) -> Iterator[str]:
    answer = found.record.run["answer"] or ""
    wanted = texts(expected.get("contains")) if isinstance(expected, dict) else []
    if isinstance(expected, str):
        yield from differs("final_text", answer, expected)
    for text in wanted:
        if text not in answer:
            yield f"final_text: expected {text!r} in it, found {answer[:200]!r}"
    for text in texts(expected.get("not_contains")) if isinstance(expected, dict) else []:
        if text in answer:
            yield f"final_text: expected no {text!r} in it, found {answer[:200]!r}"


def _event_results(found: Found, expected: Any) -> Iterator[str]:
    yield from differs("event_results", found.world.happenings.results, [expected])


def _event_results_unordered(found: Found, expected: Sequence[Any]) -> Iterator[str]:
    results = sorted(map(str, found.world.happenings.results))
    yield from differs("event_results_unordered", results, [sorted(map(str, expected))])


def _deliveries(found: Found, expected: dict[str, Any]) -> Iterator[str]:
    rows = found.record.deliveries
    counts = {"count": len(rows), "sends": len(rows), "answers": len(rows)}
    for name, number in counts.items():
        if name in expected:
            yield from differs(f"deliveries.{name}", number, expected[name])
    yield from _items(rows, expected.get("items", []))
    if expected.get("no_blank") and any(not row["body"].strip() for row in rows):
        yield "deliveries.no_blank: found a blank message"
    if expected.get("bound"):
        logged = {e["ref"] for e in found.record.events if e["kind"] == "delivery.delivered"}
        unbound = [row["id"] for row in rows if row["id"] not in logged]
        if unbound or not rows:
            yield f"deliveries.bound: expected every delivery in the run's log, not {unbound}"


def _items(rows: Sequence[dict[str, Any]], wanted: Sequence[dict[str, Any]]) -> Iterator[str]:
    for index, item in enumerate(wanted):
        body = rows[index]["body"] if index < len(rows) else None
        for text in texts(item.get("contains")):
            if body is None or text not in body:
                yield f"deliveries.items[{index}]: expected {text!r} in it, found {body!r}"


def _correction(found: Found, expected: bool) -> Iterator[str]:
    kinds = [event["kind"] for event in found.record.events]
    seen = any("correction" in kind or kind == "doom_loop" for kind in kinds)
    yield from differs("correction_seen", seen, expected)


def _worker_alive(found: Found, expected: bool) -> Iterator[str]:
    yield from differs("worker_alive", found.living_workers, expected)


def _bystander(found: Found, expected: bool) -> Iterator[str]:
    yield from differs("bystander_completes", found.bystander == "completed", expected)


def _min_seconds(found: Found, expected: float) -> Iterator[str]:
    yield from differs("min_seconds", round(found.record.seconds, 2), {"min": expected})


def _max_seconds(found: Found, expected: float) -> Iterator[str]:
    yield from differs("max_seconds", round(found.record.seconds, 2), {"max": expected})


CHECKS: Final[dict[str, Callable[[Found, Any], Iterator[str]]]] = {
    "status": _status,
    "reason": _reason,
    "status_history_contains": _history,
    "messages": _messages,
    "final_text": _final_text,
    "event_results": _event_results,
    "event_results_unordered": _event_results_unordered,
    "deliveries": _deliveries,
    "correction_seen": _correction,
    "worker_alive": _worker_alive,
    "bystander_completes": _bystander,
    "min_seconds": _min_seconds,
    "max_seconds": _max_seconds,
}
