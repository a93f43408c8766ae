"""`umbel usage`: what model calls have used and cost, added up over many runs."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Final, cast

from models.usage import GROUPS, Group, UsageFilter, Used, read_usage
from umbel.cli import exits
from umbel.cli.ending import say
from umbel.cli.json_lines import write_json
from umbel.cli.runs_reading import open_record
from umbel.cli.spending import Spending, in_all
from umbel.cli.times import age_seconds, time_range
from umbel.cli.usage_table import UsedLine, print_usage
from umbel.errors import InvalidInput
from umbel.settings import Settings

DEFAULT_AGE: Final = "30d"


@dataclass(frozen=True, slots=True)
class UsageOptions:
    """What the command line says, as text."""

    by: Sequence[str] = ()
    agent: str | None = None
    owner: str | None = None
    since: str | None = None
    until: str | None = None
    age: str | None = None


def usage_command(options: UsageOptions, data: Path | None, *, is_json: bool) -> int:
    """Show a line for each group, then the sum of all.

    Raises:
        InvalidInput: a value is none; the message names those that are.
    """
    groups, wanted = _groups_of(options.by), _filter_of(options)
    with open_record(data) as record:
        with record.reading() as connection:
            found = read_usage(connection, replace(wanted, tenant=record.tenant), groups)
        lines = _lines_of(found, groups, record.settings)
        unpriced = _unpriced(found, record.settings)
    total = in_all(line.spending for line in lines)
    if is_json:
        for line in lines:
            write_json(sys.stdout, {"type": "usage", **line.groups, **asdict(line.spending)})
        write_json(
            sys.stdout, {"type": "usage.total", "unpriced_models": unpriced, **asdict(total)}
        )
    else:
        print_usage(groups, lines, total)
        for remark in _remarks(total, unpriced):
            say(remark)
    return exits.COMPLETED


def _groups_of(names: Sequence[str]) -> Sequence[Group]:
    unknown = next((name for name in names if name not in GROUPS), None)
    if unknown is not None:
        raise InvalidInput(f"--by {unknown!r} is none of {', '.join(GROUPS)}.")
    return cast("Sequence[Group]", tuple(dict.fromkeys(names)) or ("day",))  # checked


def _filter_of(options: UsageOptions) -> UsageFilter:
    if options.age is not None and options.since is not None:
        raise InvalidInput("--age and --since both say where to begin; give one of them.")
    since, until = time_range(options.since, options.until)
    age = options.age or (None if since or until else DEFAULT_AGE)
    return UsageFilter(
        agent=options.agent,
        owner=options.owner,
        since=since,
        until=until,
        age_seconds=age_seconds(age),
    )


def _lines_of(found: Sequence[Used], groups: Sequence[Group], settings: Settings) -> list[UsedLine]:
    """A line for each group: the record tells its models apart, for each has its own price."""
    return [
        UsedLine(dict(zip(groups, key, strict=True)), in_all(_spent(used, settings) for used in of))
        for key, of in groupby(found, key=lambda used: tuple(used.groups.values()))
    ]


def _spent(used: Used, settings: Settings) -> Spending:
    reported = used.model_calls - used.unreported_calls
    cost = settings.model_settings(used.model).cost_usd(
        used.priced_input_tokens, used.priced_output_tokens, used.priced_cached_tokens
    )
    return Spending(
        model_calls=used.model_calls,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        unreported_calls=used.unreported_calls,
        unpriced_calls=reported if cost is None else 0,
        is_estimated=used.is_estimated,
        cost_usd=cost if reported else None,
    )


def _unpriced(found: Sequence[Used], settings: Settings) -> list[str]:
    """Models that were asked and have no price."""
    return sorted({used.model for used in found if _spent(used, settings).unpriced_calls})


def _remarks(total: Spending, unpriced: Sequence[str]) -> list[str]:
    remarks: list[str] = []
    if total.unreported_calls:
        remarks.append(
            f"{total.unreported_calls} of {total.model_calls} model calls were lost, are under way "
            "or reported no tokens: what they used is in no sum"
        )
    if total.unpriced_calls:
        names = ", ".join(repr(name) for name in unpriced)
        remarks.append(
            f"{total.unpriced_calls} of {total.model_calls} model calls are in no cost: there is "
            f'no price for {names}; set one under [models."NAME"] in umbel.toml'
        )
    return remarks
