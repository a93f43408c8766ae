"""The record against its own rules, read-only: what no crash may have broken."""

from typing import Final

from models.diagnosis import Counted, check_invariants, is_at_rest, looking
from models.evidence_check import check_results
from models.invariants import INVARIANTS
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding, problem, warning, worst

QUERY_SECONDS: Final = 20.0
"""No query of a rule takes longer; one that would is named."""


def look_at_invariants(context: Context) -> Finding:
    """Every rule over the whole record; some only while nothing is being worked on."""
    with looking(context.database_url, statement_seconds=QUERY_SECONDS) as connection:
        rests = is_at_rest(connection)
        rules = [rule for rule in INVARIANTS if rests or not rule.only_at_rest]
        counted = [*check_invariants(connection, rules), check_results(connection)]
    left_out = len(INVARIANTS) - len(rules)
    found = f"{len(counted)} rules checked"
    if left_out:
        found += f", {left_out} left out: they hold only while nothing is in flight"
    broken = [result for result in counted if result.rows is not None and result.rows.count]
    concerns = [_broken(result) for result in broken]
    if slow := [result.invariant.name for result in counted if result.rows is None]:
        remedy = "Repeat it at a quieter time, or on a copy of the database."
        concerns.append(
            warning("invariants", f"over {QUERY_SECONDS:g} s: {', '.join(slow)}", remedy, slow=slow)
        )
    return worst(
        "invariants",
        found,
        concerns,
        checked=len(counted),
        left_out=left_out,
        broken=[_facts(result) for result in broken],
    )


def _broken(result: Counted) -> Finding:
    facts = _facts(result)
    rule = result.invariant
    return problem(
        "invariants",
        f"{rule.broken}: {facts['count']} ({', '.join(result.rows.first if result.rows else ())}); "
        f"{rule.means}",
        "Stop the runs of these ids, keep a dump of the database, and report it as a defect of "
        "Umbel.",
    )


def _facts(result: Counted) -> dict[str, object]:
    rows = result.rows
    return {
        "name": result.invariant.name,
        "broken": result.invariant.broken,
        "means": result.invariant.means,
        "count": rows.count if rows else 0,
        "first": list(rows.first) if rows else [],
    }
