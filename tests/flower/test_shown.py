"""What Flower may show: our own short forms, and names of types."""

import ast
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import click
import pytest
from celery import Celery
from celery.events.state import Task
from celery.utils.imports import symbol_by_name
from celery.worker.control import Panel
from kombu import Connection

from tasks import refusing, step, tool_call
from tasks.inspect_guard import install_inspect_guard
from tasks.quiet_task import QuietTask, TaskFailed
from umbel.cli.flower_command import flower_command
from umbel.errors import Misconfigured
from umbel.flower import HIDDEN, format_task, shown_event
from umbel.flower_guard import refuse_open_flower

SECRET: Final = "hunter2-of-the-prompt"


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("args", "run_01k9abc step 7", "run_01k9abc step 7"),
        ("args", "read_file call_01k9abc", "read_file call_01k9abc"),
        ("args", "call_01k9abc", "call_01k9abc"),
        ("args", f"('{SECRET}',)", HIDDEN),
        ("args", f"run_01k9abc step 7 {SECRET}", HIDDEN),
        ("kwargs", "{}", ""),
        ("kwargs", f"{{'prompt': '{SECRET}'}}", HIDDEN),
        ("result", "'dispatch 3, 812 tok'", "dispatch 3, 812 tok"),
        ("result", "'pause approval_required, 12 tok'", "pause approval_required, 12 tok"),
        ("result", f"'{SECRET}'", HIDDEN),
        ("result", "'pause the dog walks alone, 12 tok'", HIDDEN),
        ("exception", "TaskFailed('KeyError')", "KeyError"),
        ("exception", f"KeyError('{SECRET}')", "KeyError"),
        ("exception", f"KeyError {SECRET}", HIDDEN),
        (
            "exception",
            "WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 3.')",
            "WorkerLostError signal 9 (SIGKILL)",
        ),
        ("traceback", f"Traceback: {SECRET}", None),
    ],
)
def test_only_our_own_forms_are_shown(name: str, value: str, shown: str | None) -> None:
    assert shown_event({"type": "task-any", name: value}) == {"type": "task-any", name: shown}
    kept = Task(uuid="run_01k9abc:s7")
    setattr(kept, name, value)
    task = format_task(kept)
    assert getattr(task, name) == shown
    assert getattr(format_task(task), name) == shown  # what came in redacted is shown as it is


def test_every_line_that_a_task_can_return_is_shown() -> None:
    lines = {line for module in (step, tool_call, refusing) for line in _returned_lines(module)}
    assert len(lines) > 10
    for line in lines:
        assert shown_event({"result": repr(line)})["result"] == line


def test_an_error_leaves_a_task_as_the_name_of_its_type() -> None:
    app = Celery("t", broker="memory://", set_as_current=False, task_cls=QuietTask)

    @app.task(name="t.leak", shared=False)
    def leak() -> None:
        try:
            os.environ[SECRET]
        except KeyError as error:
            raise ValueError(SECRET) from error

    with pytest.raises(TaskFailed, match=r"^ValueError$") as raised:
        leak()
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None


def test_workers_do_not_tell_the_arguments_of_a_message() -> None:
    app = Celery("t", broker="memory://", set_as_current=False, task_cls=QuietTask)

    @app.task(name="t.waits", shared=False)
    def waits(word: str) -> str:
        return word

    app.send_task("t.waits", args=[SECRET], argsrepr="call_01k9abc", kwargsrepr="", queue="t")
    with app.connection() as connection, connection.SimpleQueue("t") as queue:
        request = symbol_by_name(waits.Request)(queue.get(timeout=1), app=app, task=waits)
        told = request.info(safe=False)
    assert told["args"] == "call_01k9abc"
    assert SECRET not in str(told)


@pytest.mark.parametrize(
    ("url", "is_told"),
    [
        (f"redis+socket://:{SECRET}@/run/valkey.sock", "redis+socket://:**@/run/valkey.sock"),
        (f"redis://:{SECRET}@one/0;redis://:{SECRET}@two/0", "one"),
    ],
)
def test_workers_do_not_tell_the_password_of_the_broker(url: str, is_told: str) -> None:
    install_inspect_guard()
    install_inspect_guard()
    told = Panel.data["stats"](_WorkerState(Connection(url).info()))
    assert told["broker"]["hostname"] == is_told
    assert SECRET not in str(told["broker"]["alternates"])


HERE = "--address=127.0.0.1"


@pytest.mark.parametrize(
    ("command", "options", "environment", "refusal"),
    [
        ("flower", [], {}, "--address=127.0.0.1.*UMBEL_FLOWER_AUTH=user:password"),
        ("flower", ["--basic-auth=ann:secret"], {}, "--address=127.0.0.1"),
        ("flower", [HERE, "--port=5556"], {"FLOWER_BASIC_AUTH": ""}, "--basic-auth"),
        ("flower", [HERE, "--basic-auth=ann:secret"], {}, None),
        ("flower", [HERE, "--auth=.*@example.org"], {}, None),
        ("flower", [HERE], {"FLOWER_BASIC_AUTH": "ann:secret"}, None),
        ("flower", ["--basic_auth=a:b"], {"FLOWER_ADDRESS": "127.0.0.1"}, None),
        ("worker", [], {}, None),
        (None, [], {}, None),
    ],
)
def test_celerys_own_flower_is_refused_only_when_it_would_be_open(
    command: str | None, options: list[str], environment: dict[str, str], refusal: str | None
) -> None:
    with click.Context(click.Command("celery")) as context:
        context.invoked_subcommand = command
        refused = pytest.raises(Misconfigured, match=refusal) if refusal else nullcontext()
        with refused:
            refuse_open_flower(["celery", "flower", *options], environment)


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("UMBEL_FLOWER_AUTH", None, "Set UMBEL_FLOWER_AUTH=user:password"),
        ("UMBEL_FLOWER_AUTH", "ann:gehe\N{LATIN SMALL LETTER I WITH DIAERESIS}m", "ASCII"),
        ("UMBEL_FLOWER_ADDRESS", "off", "host:port"),
        ("UMBEL_REDIS_URL", None, "UMBEL_REDIS_URL must be set"),
    ],
)
def test_flower_is_refused_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str | None, remedy: str
) -> None:
    environment: dict[str, str | None] = {
        "UMBEL_FLOWER_AUTH": "ann:secret",
        "UMBEL_REDIS_URL": "redis://127.0.0.1:1/0",
        name: value,
    }
    for key, given in environment.items():
        if given is None:
            monkeypatch.delenv(key, raising=False)
        else:
            monkeypatch.setenv(key, given)
    with pytest.raises(Misconfigured, match=remedy):
        flower_command()


class _WorkerState:
    """As much of a worker's state as Celery's answer to `stats` looks at."""

    def __init__(self, broker: dict[str, Any]) -> None:
        self.consumer = self.controller = self
        self._broker = broker

    def stats(self) -> dict[str, Any]:
        return {"broker": self._broker}


def _returned_lines(module: Any) -> Iterator[str]:
    """Constant texts that functions with a line return, by themselves or in a `StepOutcome`."""
    tree = ast.parse(Path(module.__file__).read_text())
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        answers = ast.unparse(function.returns) if function.returns else ""
        for node in ast.walk(function):
            match node:
                case ast.Return(value=value) if value is not None and answers == "str":
                    yield from _texts(value)
                case ast.Call(func=ast.Name(id="StepOutcome"), args=[first, *_]):
                    yield from _texts(first)


def _texts(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(line)):
            yield line
        case ast.JoinedStr(values=[ast.Constant(value=str(start)), _]):
            yield f"{start}lease_lost"
        case ast.IfExp(body=first, orelse=other):
            yield from _texts(first)
            yield from _texts(other)
