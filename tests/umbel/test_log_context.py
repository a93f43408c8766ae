import subprocess
import sys
import threading

from umbel.log_context import afresh, bind, bound, clear, current


def test_what_is_bound_stays_until_it_is_cleared() -> None:
    clear()
    bind(run_id="run_1", step_no=1)
    bind(fence=4)
    assert current() == {"run_id": "run_1", "step_no": 1, "fence": 4}
    clear()
    assert current() == {}


def test_a_block_ends_with_what_was_bound_before() -> None:
    clear()
    bind(run_id="run_1")
    with bound(run_id="run_2", call_id="call_1"):
        assert current() == {"run_id": "run_2", "call_id": "call_1"}
    assert current() == {"run_id": "run_1"}
    clear()


def test_every_thread_has_its_own() -> None:
    clear()
    bind(run_id="run_1")
    seen: list[object] = []

    def look() -> None:
        seen.append(dict(current()))
        bind(run_id="run_2")

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [{}]
    assert current() == {"run_id": "run_1"}
    clear()


_GREENLETS = """
from gevent import monkey
monkey.patch_all()
import gevent
from umbel.log_context import afresh, bind, current

def carry(number):
    before = dict(current())
    bind(run_id=f"run_{number}")
    gevent.sleep(0)
    return before, dict(current())

found = [g.get() for g in [gevent.spawn(carry, n) for n in range(50)]]
assert found == [({}, {"run_id": f"run_{n}"}) for n in range(50)], found
assert current() == {}
"""


def test_every_greenlet_has_its_own() -> None:
    subprocess.run([sys.executable, "-c", _GREENLETS], check=True, timeout=60)


def test_work_begun_afresh_is_about_itself_alone_and_leaves_no_trace() -> None:
    with bound(run_id="run_a", fence=3):
        with afresh():
            assert current() == {}
            bind(run_id="run_b")
            assert current() == {"run_id": "run_b"}
        assert current() == {"run_id": "run_a", "fence": 3}
