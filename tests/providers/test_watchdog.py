from providers.contract import StreamLimits
from providers.watchdog import InactivityClocks

LIMITS = StreamLimits(silence_seconds=10, first_event_seconds=60, progress_seconds=20)


class Hand:
    """A clock that stands still unless moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_silence_counts_from_the_last_byte() -> None:
    hand = Hand()
    clocks = InactivityClocks(LIMITS, hand)
    hand.now += 9
    assert clocks.seconds_left() == 1
    clocks.saw(is_waiting=True, progress=0)
    assert clocks.seconds_left() == 10


def test_bytes_without_an_event_do_not_move_the_first_limit() -> None:
    hand = Hand()
    clocks = InactivityClocks(LIMITS, hand)
    for _ in range(11):
        hand.now += 5
        clocks.saw(is_waiting=True, progress=0)
    assert clocks.seconds_left() == 5


def test_events_without_progress_do_not_move_the_limit_of_progress() -> None:
    hand = Hand()
    clocks = InactivityClocks(LIMITS, hand)
    clocks.saw(is_waiting=False, progress=1)
    for _ in range(3):
        hand.now += 5
        clocks.saw(is_waiting=False, progress=1)
    assert clocks.seconds_left() == 5
    clocks.saw(is_waiting=False, progress=2)
    assert clocks.seconds_left() == 10


def test_limit_that_is_reached_leaves_no_time() -> None:
    hand = Hand()
    clocks = InactivityClocks(LIMITS, hand)
    hand.now += 10
    assert clocks.seconds_left() <= 0


def test_model_that_reasons_unseen_behind_its_first_words_has_the_long_limit_again() -> None:
    hand = Hand()
    clocks = InactivityClocks(LIMITS, hand)
    clocks.saw(is_waiting=False, progress=1)
    clocks.saw(is_waiting=True, progress=1)
    for _ in range(5):
        hand.now += 9
        clocks.saw(is_waiting=True, progress=1)
    assert clocks.seconds_left() == 10
    hand.now += 9
    clocks.saw(is_waiting=True, progress=1)
    assert clocks.seconds_left() == 6
