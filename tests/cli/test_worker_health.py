from umbel.cli.worker_health import WorkerHealth


def test_a_process_is_told_ready_once_in_the_words_of_celery() -> None:
    health = WorkerHealth()
    health.take_line("step", "[2026-01-01 00:00:00,000: INFO/MainProcess] Connected to redis://x")
    assert health.newly_ready() == []
    health.take_line("step", "[2026-01-01 00:00:00,000: INFO/MainProcess] step@host ready.")
    health.take_line("beat", "[2026-01-01 00:00:00,000: INFO/MainProcess] beat: Starting...")
    assert health.newly_ready() == ["step", "beat"]
    health.take_line("step", "[2026-01-01 00:00:00,000: INFO/MainProcess] step@host ready.")
    assert health.newly_ready() == []
