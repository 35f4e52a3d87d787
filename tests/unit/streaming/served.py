"""Recorded answers behind a real HTTP server on this machine."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: A real run on Spark 4.0.4, trimmed: three executors of two slots. Batch 4 was read by Spark's own
#: mapping, 12 and 13 by lag-aware-sticky; executor 0 was killed in batch 12.
RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded_ui.json").read_text())
APP = "app-20261121162357-0000"
QUERY_ID = "d6d585c9-e89d-40f0-b3ce-f3ab030d9d76"
#: Where an answer to any other path is.
ELSE = "*"


class Served:
    """What was asked of a server that runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.paths: list[str] = []
        self.authorizations: set[str | None] = set()


@contextlib.contextmanager
def serve(answers: Mapping[str, Any], redirect: str | None = None) -> Iterator[Served]:
    """Serve answers by path: text as it is, all else as JSON; 404 for other paths, or elsewhere."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0].rstrip("/")
            served.paths.append(path)
            served.authorizations.add(self.headers["Authorization"])
            answer = answers.get(path, answers.get(ELSE))
            if answer is None and redirect is not None:
                self.send_response(302)
                self.send_header("Location", redirect + path)
                self.end_headers()
                return
            if answer is None:
                self.send_error(404)
                return
            body = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = Served(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


def with_jobs(*descriptions: str) -> dict[str, Any]:
    """The recorded application with other jobs; none of their stages is known."""
    job = {"submissionTime": "2026-11-21T16:26:35.522GMT",
           "completionTime": "2026-11-21T16:26:36.522GMT", "stageIds": [99]}  # fmt: skip
    jobs = [{**job, "jobId": n, "description": words} for n, words in enumerate(descriptions)]
    return {**RECORDED, f"/api/v1/applications/{APP}/jobs": jobs}
