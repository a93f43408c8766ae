"""How checks are carried out: apart from each other, in order, and never for long."""

import threading
import time

import pytest

from umbel.cli.doctor.context import Context, secrets_of
from umbel.cli.doctor.finding import Finding, ok, problem, warning, worst
from umbel.cli.doctor.running import Check, run_checks
from umbel.errors import Misconfigured
from umbel.settings import Settings, load_settings

CONTEXT = Context(Settings())


def look_well(_: Context) -> Finding:
    return ok("well", "fine")


def fail(_: Context) -> Finding:
    raise ValueError("half a sentence\nand more")


def test_a_check_that_fails_ends_no_other_and_is_a_problem_of_its_part() -> None:
    found = list(run_checks((Check("ill", fail), Check("well", look_well)), CONTEXT))
    assert [(finding.part, finding.state) for finding in found] == [
        ("ill", "problem"),
        ("well", "ok"),
    ]
    assert "ValueError: half a sentence and more" in found[0].found


def test_the_last_sentence_of_our_own_errors_is_the_remedy() -> None:
    def refuse(_: Context) -> Finding:
        raise Misconfigured("The thing is wrong. It was made on a Monday. Make it again.")

    [finding] = run_checks((Check("thing", refuse),), CONTEXT)
    assert finding.found == "The thing is wrong. It was made on a Monday"
    assert finding.remedy == "Make it again."


def test_a_check_that_hangs_costs_the_limit_once_and_skips_what_needs_it() -> None:
    never = threading.Event()

    def hang(_: Context) -> Finding:
        never.wait()
        return ok("slow", "at last")

    checks = (
        Check("slow", hang),
        Check("next", look_well, needs=("slow",)),
        Check("last", look_well, needs=("next",)),
        Check("well", look_well),
    )
    began = time.monotonic()
    found = list(run_checks(checks, CONTEXT, limit_seconds=0.3))
    assert time.monotonic() - began < 2
    never.set()
    assert [finding.state for finding in found] == ["problem", "skipped", "skipped", "ok"]
    assert "no answer within 0.3 s" in found[0].found


def test_what_is_skipped_names_the_part_to_put_right() -> None:
    def refuse(_: Context) -> Finding:
        return problem("root", "gone", "Start it.").blocking()

    checks = (
        Check("root", refuse),
        Check("stem", look_well, needs=("root",)),
        Check("leaf", look_well, needs=("stem",)),
    )
    found = list(run_checks(checks, CONTEXT))
    assert [finding.found for finding in found[1:]] == ["depends on root", "depends on root"]


def test_a_problem_that_can_be_lived_with_skips_nothing() -> None:
    def complain(_: Context) -> Finding:
        return problem("root", "full", "Empty it.")

    found = list(
        run_checks((Check("root", complain), Check("leaf", look_well, needs=("root",))), CONTEXT)
    )
    assert [finding.state for finding in found] == ["problem", "ok"]


def test_no_secret_and_no_escape_gets_through_whatever_a_check_says() -> None:
    settings = load_settings(
        {"UMBEL_CONFIG": ""},
        database_url="postgresql://ann:data%40secret@host/umbel",
        redis_url="unix:///run/valkey.sock?password=redis-secret",
        api_key="sk-model-secret",
        flower_auth="ann:flower-secret",
    )
    secrets = secrets_of(settings, {"OPENAI_API_KEY": "sk-other-secret"})

    def blab(_: Context) -> Finding:
        said = "data@secret data%40secret redis-secret sk-model-secret flower-secret"
        said += " sk-other-secret \x1b[31m postgresql://ann:pass-secret@host/umbel"
        return warning("loud", said, said, told=[{"key": said}])

    [finding] = run_checks((Check("loud", blab),), CONTEXT, secrets=secrets)
    assert "secret" not in repr((finding.found, finding.facts))
    assert "\x1b" not in repr(finding).replace("\\x1b", "")
    assert "sk-" not in str(finding.remedy)


def test_the_gravest_concern_comes_first_and_every_remedy_is_given_once() -> None:
    concerns = [warning("x", "small", "Do a."), problem("x", "large", "Do b.", n=1)]
    finding = worst("x", "thing", [*concerns, warning("x", "again", "Do a.")], m=2)
    assert finding.state == "problem"
    assert finding.found == "thing; large; small; again"
    assert finding.remedy == "Do b. Do a."
    assert finding.facts == {"m": 2, "n": 1}


@pytest.mark.parametrize("state", ["problem", "warning"])
def test_one_concern_is_enough(state: str) -> None:
    kind = {"problem": problem, "warning": warning}[state]
    assert worst("x", "thing", [kind("x", "bad", "Do it.")]).state == state
