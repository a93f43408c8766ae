"""Runs a folder of provider cases, each from its bytes and over real HTTP."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from loop.request import (
    AssistantCall,
    AssistantMessage,
    Message,
    ModelRequest,
    ToolMessage,
    UserMessage,
)
from loop.response import ModelTurn
from providers.contract import Endpoint, StreamControl, StreamHandle, StreamLimits
from providers.normalise import normalise
from providers.profiles import EndpointProfile
from providers.refusals import Refusals
from tests.providers.case_view import case_view
from tests.providers.cases import Case, read_cases
from tests.providers.compare import differences
from tests.providers.replay_server import replaying

# Wide enough for a recording that drips comments for a while before it ends.
_LIMITS = StreamLimits(silence_seconds=30.0, first_event_seconds=60.0, progress_seconds=30.0)
# The cases know nothing of fields that an endpoint may learn to do without.
_PLAIN = EndpointProfile(asks_for_usage=False)


def run_provider_cases(
    folder: Path, only: str | None = None, *, verbose: bool = False
) -> tuple[int, int, int]:
    """Run every case of a folder; prints one line for each that fails.

    Args:
        folder: holds one folder per case.
        only: run only cases whose name contains this.
        verbose: print a line for each that passes, too.

    Returns:
        How many passed, failed, and are of a form unknown here.
    """
    known, unknown = _sorted_by_form(folder, only)
    passed = failed = 0
    with replaying(known) as address:
        for case in known:
            found = list(_faults(case, address))
            passed, failed = (passed, failed + 1) if found else (passed + 1, failed)
            if found or verbose:
                _say(f"{'FAIL' if found else 'pass'} {case.name}: {'; '.join(found)}")
    for name in unknown:
        _say(f"UNSUPPORTED {name}: no wire.sse or wire.json beside expect.json")
    return passed, failed, len(unknown)


def read_direct(case: Case) -> ModelTurn:
    """The turn of a case from its bytes alone."""
    return read_pieces(case, [case.wire[2]])


def read_pieces(case: Case, raw: Iterable[bytes]) -> ModelTurn:
    """The turn of a case from its body cut in any way."""
    status, headers, _ = case.wire
    return normalise(
        raw,
        status=status,
        headers=headers,
        offered=case.offered,
        facts=case.facts,
        new_answer=case.provider.wire.new_answer,
    )


def read_over_http(case: Case, address: str) -> ModelTurn:
    """The turn of a case from the adapter, over a real connection."""
    endpoint = Endpoint(base_url=f"{address}/{case.name}/v1", api_key="")
    provider = case.provider(endpoint, profile=_PLAIN, refusals=Refusals())
    request = _request(case)
    control = StreamControl(
        handle=StreamHandle(),
        limits=_LIMITS,
        on_delta=lambda _kind, _piece: None,
        watch=lambda: None,
    )
    return provider.stream(request, provider.render(request, provider.form()), control)


def _request(case: Case) -> ModelRequest:
    used = tuple(AssistantCall(call_id, "now", "{}", {}) for call_id in case.facts.ids_already_used)
    results = tuple(ToolMessage(call.call_id, call.name, "12:00") for call in used)
    history: tuple[Message, ...] = (AssistantMessage("", used), *results) if used else ()
    return ModelRequest(
        model="m",
        messages=(UserMessage("go on"), *history),
        tools=case.offered,
        max_output_tokens=case.facts.max_tokens,
    )


def _sorted_by_form(folder: Path, only: str | None) -> tuple[list[Case], list[str]]:
    cases = [case for case in read_cases(folder) if only is None or only in case.name]
    known = [case for case in cases if _has_wire(case)]
    return known, [case.name for case in cases if not _has_wire(case)]


def _has_wire(case: Case) -> bool:
    return any((case.path / name).exists() for name in ("wire.sse", "wire.json"))


def _faults(case: Case, address: str) -> Iterator[str]:
    yield from (f"bytes: {d}" for d in differences(case.expect, case_view(read_direct(case))))
    over_http = case_view(read_over_http(case, address))
    yield from (f"http: {d}" for d in differences(case.expect, over_http))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
