"""What docs/operations.md tells operators is about this system."""

import re

from sqlalchemy import PrimaryKeyConstraint, UniqueConstraint

from models.tables import metadata
from tests.deploy.composition import PROCESSES, ROOT, compose_services

TEXT = (ROOT / "docs" / "operations.md").read_text()


def test_every_alert_is_explained_and_no_other() -> None:
    rules = (ROOT / "docs" / "metrics.md").read_text()
    assert set(re.findall(r"^\| `(Umbel\w+)` \|", TEXT, re.MULTILINE)) == set(
        re.findall(r"- alert: (\w+)", rules)
    )


def test_retention_removes_from_every_table_of_a_run_and_children_first() -> None:
    deleted = re.findall(r"^DELETE FROM (\w+)", TEXT, re.MULTILINE)
    of_runs = {name for name, table in metadata.tables.items() if "run_id" in table.columns}
    assert set(deleted) == of_runs | {"runs", "threads"}
    for name in deleted:
        for key in metadata.tables[name].foreign_keys:
            assert deleted.index(name) < deleted.index(key.column.table.name), name


def test_what_refers_to_a_removed_row_is_found_by_an_index() -> None:
    """Else each removed row costs a look at every row of the other table."""
    for table in metadata.tables.values():
        whole = [i for i in table.indexes if i.dialect_options["postgresql"]["where"] is None]
        keys = [
            k for k in table.constraints if isinstance(k, PrimaryKeyConstraint | UniqueConstraint)
        ]
        first = {next(iter(found.columns)).name for found in (*whole, *keys)}
        for key in table.foreign_keys:
            assert key.parent.name in first, f"{table.name}.{key.parent.name} has no index"


def test_limits_in_the_table_of_sizes_are_those_of_compose() -> None:
    compose = compose_services()
    stated = {
        row[0].split(",")[0].lower(): row[1]
        for row in re.findall(r"^\| ([\w ,]+?) \|.*\| (\d+ [MG]B)\b[^|]*\|$", TEXT, re.MULTILINE)
    }
    for name in ("postgres", "valkey", *PROCESSES):
        limit = compose[name]["deploy"]["resources"]["limits"]["memory"]
        row = {"postgres": "postgresql"}.get(name, name)
        assert stated[row] == f"{limit[:-1]} {limit[-1].upper()}B", name


def test_the_processes_of_the_table_are_those_of_compose() -> None:
    head = TEXT.split("## Docker compose")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", head, re.MULTILINE)) == set(PROCESSES)


def test_files_and_sections_that_are_named_exist() -> None:
    for document in ("docs/operations.md", "SECURITY.md"):
        text = (ROOT / document).read_text()
        for target in re.findall(r"\]\(([^)#]+)(?:#[\w-]+)?\)", text):
            assert ((ROOT / document).parent / target).resolve().exists(), (document, target)
