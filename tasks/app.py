"""The Celery application: settings of the broker, and task bodies of one line."""

from typing import Any

from celery import Celery
from kombu import Exchange, Queue

from tasks.claiming import carry_calls, carry_steps
from tasks.inspect_guard import install_inspect_guard
from tasks.kombu_guard import install_guard, install_waits
from tasks.lifecycle import connect_signals
from tasks.log_setup import connect_logging
from tasks.message_guard import install_message_guard
from tasks.pool_guard import install_pool_guard
from tasks.quiet_task import QuietTask
from tasks.runtime import required_urls, runtime
from umbel.contracts import CallId, RunId
from umbel.errors import Misconfigured
from umbel.names import CALL, CONTROL_QUEUE, LOOP_QUEUE, STEP, SUSPECT_QUEUE, TOOLS_QUEUE
from umbel.redis_url import broker_url
from umbel.settings import Settings


def make_app(settings: Settings) -> Celery:
    """A configured application; connects to nothing.

    Raises:
        Misconfigured: an address is missing.
    """
    required_urls(settings)
    app = broker_app(settings)
    register_tasks(app)
    connect_logging(settings)
    connect_signals(app, settings)
    return app


def broker_app(settings: Settings) -> Celery:
    """An application that reaches queues and workers and has no tasks: Redis is all it needs.

    Raises:
        Misconfigured: the address of Redis is missing.
    """
    if settings.redis_url is None:
        raise Misconfigured(
            "UMBEL_REDIS_URL must be set; `umbel run` and `umbel up` set it by themselves."
        )
    app: Celery = Celery("umbel", broker=broker_url(settings.redis_url), task_cls=QuietTask)
    app.conf.update(celery_configuration(settings))
    install_guard()
    install_waits()
    install_pool_guard()
    install_inspect_guard()
    install_message_guard()
    return app


def celery_configuration(settings: Settings) -> dict[str, Any]:
    """Celery's settings; each one's reason is in docs/architecture.md, "Celery settings".

    No result backend, no late acknowledgement, no ETA, no time limits: the truth is in PostgreSQL,
    a message is a hint, and silence is the only clock.
    """
    return {
        "task_acks_late": False,
        "task_reject_on_worker_lost": False,
        "task_ignore_result": True,
        "result_backend": "disabled://",
        "task_store_errors_even_if_ignored": False,
        "task_serializer": "json",
        "result_serializer": "json",
        "event_serializer": "json",
        "accept_content": ["json"],
        "task_default_queue": CONTROL_QUEUE,
        "task_create_missing_queues": False,
        # Each with its own exchange and key: left out, both are the default queue's, and every
        # message would reach every queue.
        "task_queues": [
            Queue(name, Exchange(name, type="direct"), routing_key=name)
            for name in (LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE, CONTROL_QUEUE)
        ],
        "task_routes": {
            "umbel.loop.*": {"queue": LOOP_QUEUE},
            "umbel.tools.*": {"queue": TOOLS_QUEUE},
        },
        "task_publish_retry": False,
        "task_send_sent_event": True,
        "task_track_started": False,
        "worker_send_task_events": True,
        "worker_prefetch_multiplier": 1,
        "worker_enable_prefetch_count_reduction": False,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_consumer": "tasks.drain_consumer:PromptConsumer",
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_eta_task_limit": 100,
        "worker_max_tasks_per_child": 200,
        "worker_max_memory_per_child": 400_000,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_pool_limit": 50,
        "broker_pool_acquire_timeout": 1,
        "broker_transport_options": {
            "visibility_timeout": 600,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            "max_connections": settings.step_concurrency + 50,
            "socket_timeout": 15,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 10,
            "global_keyprefix": f"{{{settings.redis_prefix}}}:",
        },
        "beat_scheduler": "tasks.beat:Scheduler",
        "beat_max_loop_interval": settings.sweep_seconds,
        "beat_enable_remote_control": True,
        "beat_remote_control_max_tick_age": 30,
        "timezone": "UTC",
    }


def register_tasks(app: Celery) -> None:
    """The tasks by their public names; bodies only hand over.

    Not shared: other Celery applications of the process, as in a service that uses the client, have
    nothing to do with them.
    """

    @app.task(name=STEP, shared=False)
    def step(run_id: str, step_no: int) -> str:
        return carry_steps(runtime(), RunId(run_id), step_no)

    @app.task(name=CALL, shared=False)
    def call(call_id: str) -> str:
        return carry_calls(runtime(), CallId(call_id))
