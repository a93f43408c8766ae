"""Many model streams at once through the adapter, in one gevent process, as a step worker has them.

`python benchmarks/streams.py [COUNT]` (default 1000) prints one line of JSON and fails if a turn is
incomplete, has no usage, or the process grew beyond 250 MB.
"""

from gevent import monkey

monkey.patch_all()

import json  # noqa: E402 - the patches come first
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Final  # noqa: E402

import gevent  # noqa: E402
import gevent.pool  # noqa: E402

from loop.request import ModelRequest, UserMessage  # noqa: E402
from loop.response import ModelTurn  # noqa: E402
from providers.chat import ChatProvider  # noqa: E402
from providers.contract import (  # noqa: E402
    Endpoint,
    StreamControl,
    StreamHandle,
    StreamLimits,
)
from providers.refusals import Refusals  # noqa: E402

MAX_RSS_MB: Final = 250
CHUNKS: Final = 40
GAP_SECONDS: Final = 0.25
_SERVER: Final = Path(__file__).with_name("stream_server.py")
_REQUEST: Final = ModelRequest("m", (UserMessage("x" * 4_000),), ())


@contextmanager
def endpoint_for(count: int) -> Iterator[Endpoint]:
    """The server in a process of its own."""
    command = [sys.executable, str(_SERVER), str(count), str(CHUNKS), str(GAP_SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
        try:
            assert server.stdout is not None  # noqa: S101 - it is a pipe
            port = int(server.stdout.readline())
            yield Endpoint(f"http://127.0.0.1:{port}/v1", "")
        finally:
            server.terminate()


def one_stream(provider: ChatProvider, body: bytes) -> ModelTurn:
    """A whole turn."""
    control = StreamControl(
        handle=StreamHandle(),
        limits=StreamLimits(),
        on_delta=lambda _kind, _piece: None,
        watch=lambda: None,
    )
    return provider.stream(_REQUEST, body, control)


def run(count: int) -> dict[str, float]:
    """What it took to carry so many streams at once."""
    with endpoint_for(count) as endpoint:
        provider = ChatProvider(endpoint, refusals=Refusals())
        provider.prepare()
        body = provider.render(_REQUEST, provider.form())
        before_mb = _rss_mb()
        wall, cpu = time.monotonic(), time.process_time()
        readers = [gevent.spawn(one_stream, provider, body) for _ in range(count)]
        gevent.joinall(readers, raise_error=True)
        turns = [reader.get() for reader in readers]
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    return {
        "streams": count,
        "complete": sum(turn.failure is None and turn.finish == "stop" for turn in turns),
        "with_usage": sum(turn.usage.output_tokens == 5 * CHUNKS for turn in turns),
        "rss_before_mb": round(before_mb, 1),
        "max_rss_mb": round(_rss_mb(), 1),
        "wall_seconds": round(wall, 2),
        "cpu_seconds": round(cpu, 2),
        "cpu_us_per_chunk": round(cpu / count / (CHUNKS + 4) * 1e6, 1),
    }


def _rss_mb() -> float:
    """The most memory this program ever had; `getrusage` would count what its parent had, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def main() -> int:
    """Run and judge."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    result = run(count)
    sys.stdout.write(json.dumps(result) + "\n")
    is_whole = result["complete"] == result["with_usage"] == count
    return 0 if is_whole and result["max_rss_mb"] < MAX_RSS_MB else 1


if __name__ == "__main__":
    sys.exit(main())
