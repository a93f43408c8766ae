"""Whether a request that comes under a known run id is the one that the run was accepted with."""

import json
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, select

from models.given import given_at_first
from models.tables import entries, run_specs, runs
from umbel.contracts import RunId, ThreadId
from umbel.errors import IdReused

if TYPE_CHECKING:
    from models.runs import RunRequest


def refuse_other_request(
    connection: Connection, request: "RunRequest", run_id: RunId, thread_id: ThreadId | None
) -> None:
    """Do nothing if the request is the run's own, asked again.

    Only what callers say themselves counts: that an agent has been configured otherwise since does
    not turn a repeated request into another one.

    Raises:
        IdReused: it asks for something else; names what differs and no content.
    """
    query = (
        select(
            runs.c.thread_id,
            run_specs.c.agent,
            run_specs.c.model,
            run_specs.c.workspace,
            run_specs.c.policy,
            entries.c.text,
        )
        .join(run_specs, run_specs.c.run_id == runs.c.id)
        .join(entries, (entries.c.run_id == runs.c.id) & (entries.c.kind == "request"))
        .where(runs.c.id == run_id)
    )
    found = list(_differences(connection.execute(query).one(), request, thread_id))
    if given_at_first(connection, run_id) != request.sources:
        found.append("its sources differ")
    if found:
        raise IdReused(
            f"The run id {run_id!r} was accepted before with another request: "
            f"{'; '.join(found)}. Nothing was accepted now. Choose a new id for a new request, or "
            f"repeat the first one as it was; `umbel runs get {run_id}` shows it."
        )


def _differences(
    known: Row[*tuple[Any, ...]], request: "RunRequest", thread_id: ThreadId | None
) -> Iterator[str]:
    if known.text != request.input:
        pairs = zip(known.text, request.input, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        yield f"its text differs from character {same + 1} on"
    facts: list[tuple[str, object, object]] = [
        ("agent", known.agent, request.agent),
        ("workspace", known.workspace, request.workspace),
    ]
    if request.names_model:
        facts.append(("model", known.model, request.model))
    if thread_id is not None:
        facts.append(("thread", known.thread_id, thread_id))
    then, now = json.loads(known.policy), json.loads(request.policy)
    facts += [(f"policy.{name}", then.get(name), now.get(name)) for name in request.own_policy]
    for name, before, asked in facts:
        if before != asked:
            yield f"{name} was {_shown(before)} and is {_shown(asked)} now"


def _shown(value: object) -> str:
    return "none" if value is None else repr(value)
