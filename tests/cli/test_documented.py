from dataclasses import fields
from pathlib import Path
from typing import get_args

from umbel.cli import exits
from umbel.cli.moments import CallSettled, Moment
from umbel.cli.spending import Spending

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text()


def test_the_json_of_umbel_run_is_documented_field_by_field() -> None:
    for moment in get_args(Moment):
        rows = [x for x in DOCUMENT.splitlines() if x.startswith(f"| `{moment.type}` |")]
        assert len(rows) == 1, moment.type
        if moment is not CallSettled:  # its row says "as above"
            for field in fields(moment):
                assert f"`{field.name}`" in rows[0], (moment.type, field.name)
    spending = next(x for x in DOCUMENT.splitlines() if x.startswith("`spending`:"))
    assert all(f"`{field.name}`" in spending for field in fields(Spending))


def test_every_exit_code_is_documented() -> None:
    codes = [value for name, value in vars(exits).items() if name.isupper()]
    assert len(codes) == 6
    for code in codes:
        assert f"\n| {code} |" in DOCUMENT
