import json
from pathlib import Path
from typing import Any

import pytest

from models.database import Database
from tests.cli.stories import a_completed_run
from tests.factories import RunWish, a_run
from tests.models.story import change, claimed, query
from umbel.cli.runs_commands import get_command, steps_command
from umbel.cli.usage import UsageOptions, usage_command
from umbel.contracts import Principal
from umbel.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("own_settings")
PRICES = "price_input_per_million = 1000.0\nprice_output_per_million = 2000.0\n"


def usage(
    capsys: pytest.CaptureFixture[str], **options: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The lines and the total of `--json`."""
    assert usage_command(UsageOptions(**options), None, is_json=True) == 0
    *lines, total = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.pop("type") for line in (*lines, total)] == ["usage"] * len(lines) + [
        "usage.total"
    ]
    return lines, total


def with_a_summary(database: Database) -> str:
    """A completed run of two main calls, 10 tokens in and 5 out each, and one for a summary."""
    run_id = a_completed_run(database)
    change(
        database,
        "INSERT INTO model_calls (run_id, step, attempt, tenant, fence, holder, purpose, state,"
        " reply, input_tokens, output_tokens, closed_at) SELECT run_id, step, 2, tenant, fence,"
        " holder, 'compact', 'closed', reply, 7, 3, now() FROM model_calls"
        " WHERE run_id = %(id)s AND step = 1",
        id=run_id,
    )
    return run_id


def test_what_was_used_is_added_up_by_day(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "umbel.toml").write_text(f"[models.scripted]\n{PRICES}")
    with_a_summary(database)
    today = query(database, "SELECT (now() AT TIME ZONE 'UTC')::date::text AS day")[0]["day"]
    [line], total = usage(capsys)
    sums = {
        "model_calls": 3,
        "input_tokens": 27,
        "output_tokens": 13,
        "unreported_calls": 0,
        "unpriced_calls": 0,
        "is_estimated": False,
        "cost_usd": pytest.approx(0.053),
    }
    assert line == {"day": today, **sums}
    assert total == {"unpriced_models": [], **sums}


def test_groups_are_told_apart_and_models_by_their_own_price(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "umbel.toml").write_text(f"[models.scripted]\n{PRICES}")
    with_a_summary(database)
    other = a_run(
        database, RunWish(model="free", principal=Principal(tenant="acme", user="bob"))
    ).run_id
    claimed(database, other)
    change(
        database,
        "UPDATE model_calls SET state = 'closed', reply = '{}', closed_at = now(),"
        " input_tokens = 1, output_tokens = 1 WHERE run_id = %(id)s",
        id=other,
    )
    lines, total = usage(capsys, by=("owner", "purpose"))
    assert [(line["owner"], line["purpose"], line["cost_usd"]) for line in lines] == [
        ("ann", "compact", pytest.approx(0.013)),
        ("ann", "main", pytest.approx(0.04)),
        ("bob", "main", None),
    ]
    assert (total["unpriced_calls"], total["unpriced_models"]) == (1, ["free"])
    assert total["cost_usd"] == pytest.approx(0.053)
    assert usage_command(UsageOptions(by=("model",)), None, is_json=False) == 0
    told = capsys.readouterr()
    assert [line.split() for line in told.out.splitlines()] == [
        ["model", "model", "calls", "unknown", "tokens", "in", "tokens", "out", "cost"],
        ["free", "1", "0", "1", "1", "unknown"],
        ["scripted", "3", "0", "27", "13", "$0.0530"],
        ["in", "all", "4", "0", "28", "14", "at", "least", "$0.0530"],
    ]
    assert "1 of 4 model calls are in no cost: there is no price for 'free'" in told.err


def test_lost_attempts_are_counted_and_never_zero(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "umbel.toml").write_text(f"[models.scripted]\n{PRICES}")
    run_id = a_run(database).run_id
    claimed(database, run_id)
    change(database, "UPDATE model_calls SET state = 'lost', closed_at = now()")
    [line], _ = usage(capsys)
    assert (line["unreported_calls"], line["cost_usd"]) == (1, None)
    a_completed_run(database)
    [line], total = usage(capsys, by=("agent",))
    assert (line["model_calls"], line["unreported_calls"]) == (3, 1)
    assert total["cost_usd"] == pytest.approx(0.04)
    usage_command(UsageOptions(), None, is_json=False)
    told = capsys.readouterr()
    assert "at least $0.0400" in told.out
    assert "1 of 3 model calls were lost, are under way or reported no tokens" in told.err


def test_only_the_time_the_owner_and_the_tenant_that_are_asked_for_count(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    a_completed_run(database)
    change(database, "UPDATE model_calls SET opened_at = now() - interval '31 days'")
    assert usage(capsys)[1]["model_calls"] == 0, "thirty days, unless something else is said"
    assert usage(capsys, age="5w")[1]["model_calls"] == 2
    assert usage(capsys, since="2020-01-01")[1]["model_calls"] == 2
    assert usage(capsys, until="2020-01-01")[1]["model_calls"] == 0
    assert usage(capsys, age="5w", owner="bob")[1]["model_calls"] == 0
    assert usage(capsys, age="5w", agent="default")[1]["model_calls"] == 2
    change(database, "UPDATE model_calls SET tenant = 'other'")
    assert usage(capsys, age="5w")[1]["model_calls"] == 0
    usage_command(UsageOptions(), None, is_json=False)
    assert capsys.readouterr().out == "no model calls\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": ("hour",)}, "none of day, agent, model, purpose, owner"),
        ({"age": "3d", "since": "2026-01-01"}, "give one of them"),
        ({"age": "soon"}, "no age"),
        ({"since": "yesterday"}, "no time"),
        ({"since": "2026-02-01", "until": "2026-01-01"}, "not before"),
    ],
)
def test_a_value_that_is_none_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        usage_command(UsageOptions(**options), None, is_json=False)


def test_a_run_and_its_steps_tell_purposes_apart(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "umbel.toml").write_text(f"[models.scripted]\n{PRICES}")
    run_id = with_a_summary(database)
    get_command(run_id, None, is_json=True)
    facts = json.loads(capsys.readouterr().out)
    costs = {purpose: part["cost_usd"] for purpose, part in facts["purposes"].items()}
    assert costs == {"main": pytest.approx(0.04), "compact": pytest.approx(0.013)}
    assert facts["spending"]["cost_usd"] == pytest.approx(0.053)
    assert [list(step["purposes"]) for step in facts["steps"]] == [["main", "compact"], ["main"]]
    get_command(run_id, None, is_json=False)
    of_that = "of that    main 20 in, 10 out, cost $0.0400; compact 7 in, 3 out, cost $0.0130"
    assert of_that in capsys.readouterr().out.splitlines()
    steps_command(run_id, None, is_json=False)
    told = capsys.readouterr().out
    assert "model call 2 (compact): no decision, 7 in, 3 out" in told
    assert told.count("of that") == 2
    steps_command(run_id, None, is_json=True)
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert [attempt["purpose"] for attempt in first["attempts"]] == ["main", "compact"]
