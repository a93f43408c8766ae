import time

import pytest

from umbel.cli.supervision import GiveUp, Past, Restart, RestartPolicy
from umbel.cli.supervisor import Child, Supervisor, how_it_ended
from umbel.cli.up_happenings import (
    Happening,
    ProcessEnded,
    ProcessReady,
    ProcessStarted,
    Progress,
    SystemReady,
)
from umbel.errors import Unavailable
from umbel.server_processes import EndedProcess

POLICY = RestartPolicy()


def pauses(*ends: tuple[int, float]) -> list[float]:
    """The pauses after these ends, each an exit code and the seconds lived."""
    past, found = Past(), []
    for exit_code, lived_seconds in ends:
        verdict = POLICY.after_end(past, exit_code=exit_code, lived_seconds=lived_seconds)
        assert isinstance(verdict, Restart)
        past = verdict.past
        found.append(verdict.after_seconds)
    return found


def test_a_process_that_keeps_dying_is_started_again_ever_later_up_to_fifteen_seconds() -> None:
    assert pauses(*[(-9, 1.0)] * 8) == [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]


def test_a_process_that_lived_for_a_minute_has_a_clean_past() -> None:
    assert pauses((1, 1.0), (1, 1.0), (1, 60.0), (1, 59.9)) == [0.5, 1.0, 0.5, 1.0]


def test_the_pause_stays_the_longest_one_however_often_a_process_dies() -> None:
    verdict = POLICY.after_end(Past(deaths=100_000), exit_code=1, lived_seconds=0.0)
    assert isinstance(verdict, Restart)
    assert verdict.after_seconds == 15.0


def test_a_process_that_refuses_its_configuration_three_times_in_a_row_is_given_up() -> None:
    assert POLICY.after_end(Past(2, 2), exit_code=2, lived_seconds=1.0) == GiveUp(3)


def test_another_end_between_two_refusals_starts_the_count_again() -> None:
    assert len(pauses((2, 1.0), (2, 1.0), (-9, 1.0), (2, 1.0), (2, 1.0))) == 5


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [(0, "ended with exit code 0"), (-9, "was ended by SIGKILL"), (-40, "was ended by signal 40")],
)
def test_an_end_is_told_in_words(exit_code: int, words: str) -> None:
    assert how_it_ended(exit_code) == words


class Stop(Exception):
    """Ends the loop of a supervisor under test."""


class Told:
    """Collects what a supervisor tells, and ends its loop once `is_enough`."""

    def __init__(self, policy: RestartPolicy | None = None) -> None:
        quick = RestartPolicy(first_pause_seconds=0.01, longest_pause_seconds=0.01)
        self.happenings: list[Happening] = []
        self.supervisor = Supervisor(
            self.happenings.append, began=time.monotonic(), policy=policy or quick
        )

    def of(self, kind: type[Happening]) -> list[Happening]:
        return [happening for happening in self.happenings if isinstance(happening, kind)]


def test_what_died_is_said_and_started_again() -> None:
    told, starts = Told(), iter((11, 12))

    def start() -> int:
        pid = next(starts)
        told.supervisor.note_ready("step")
        if pid == 11:
            told.supervisor.note_end(EndedProcess("step", -9))
        else:
            told.supervisor.fail(Stop())
        return pid

    told.supervisor.start(Child("step", start))
    with pytest.raises(Stop):
        told.supervisor.supervise()
    assert [x.pid for x in told.happenings if isinstance(x, ProcessStarted)] == [11, 12]
    (ended,) = [x for x in told.happenings if isinstance(x, ProcessEnded)]
    assert (ended.process, ended.exit_code, ended.how) == ("step", -9, "was ended by SIGKILL")
    assert len(told.of(ProcessReady)) == 2
    assert len(told.of(SystemReady)) == 1


def test_the_system_is_ready_once_every_process_is() -> None:
    told, looks = Told(), iter((False, False, True))

    def is_ready() -> bool:
        assert told.of(SystemReady) == []
        found = next(looks)
        if found:
            told.supervisor.fail(Stop())
        return found

    told.supervisor.adopt(Child("postgres", lambda: 1), 1, started_at=time.monotonic())
    told.supervisor.start(Child("step", lambda: 2))
    told.supervisor.start(Child("flower", lambda: 3, is_ready))
    told.supervisor.note_ready("step")
    with pytest.raises(Stop):
        told.supervisor.supervise()
    (ready,) = [x for x in told.happenings if isinstance(x, SystemReady)]
    assert ready.processes == 3


def test_a_process_that_is_given_up_ends_the_loop_with_the_last_it_said() -> None:
    told = Told()

    def start() -> int:
        told.supervisor.take_line("tool", "umbel: UMBEL_DATABASE_URL must be set")
        told.supervisor.note_end(EndedProcess("tool", 2))
        return 1

    told.supervisor.start(Child("tool", start))
    with pytest.raises(Unavailable, match=r"(?s)tool .* 3 times.*UMBEL_DATABASE_URL must be set"):
        told.supervisor.supervise()
    assert len(told.of(ProcessStarted)) == 3


def test_a_server_that_cannot_be_started_now_is_tried_again() -> None:
    told, tries = Told(), iter((1, 2))

    def start() -> int:
        if next(tries) == 1:
            raise Unavailable("A process of the last one is still about.")
        told.supervisor.fail(Stop())
        return 7

    told.supervisor.start(Child("postgres", start))
    with pytest.raises(Stop):
        told.supervisor.supervise()
    assert [x.text for x in told.happenings if isinstance(x, Progress)] == [
        "A process of the last one is still about."
    ]
    assert len(told.of(ProcessStarted)) == 1
