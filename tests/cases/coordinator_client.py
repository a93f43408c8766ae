"""How worker processes talk to the coordinator: one blocking request each."""

import http.client
import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

LONGEST_SECONDS = 120.0
"""A point may be held while another worker takes over."""


def tell(path: str, message: Mapping[str, Any]) -> dict[str, Any]:
    """Report something and wait until the coordinator has handled it; its answer."""
    address = urlsplit(os.environ["UMBEL_CASE_COORDINATOR"])
    connection = http.client.HTTPConnection(
        address.hostname or "", address.port, timeout=LONGEST_SECONDS
    )
    try:
        body = json.dumps({"pid": os.getpid(), **message})
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != http.client.OK:
            raise ConnectionError(f"the coordinator refused {path}: {text}")
        return dict(json.loads(text))
    finally:
        connection.close()
