"""A server on the loopback interface that serves ranges of a folder's files.

It counts what it sends, and misbehaves on request.
"""

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

SHA = "0123456789abcdef0123456789abcdef01234567"


class Server(ThreadingHTTPServer):
    """Serves a folder; ``/BEHAVIOUR/name`` serves ``name`` as the method of that name does.

    ``ranges`` has the requested ranges with the file's name, ``sent`` the bytes of all answers,
    ``most_at_once`` the largest number of requests that were open at the same time.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.elsewhere = (
            f"http://localhost:{self.server_address[1]}"  # another host, as the hub has for files
        )
        self.ranges: list[tuple[str, int, int]] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.sent = self.open = self.most_at_once = 0
        self.revisions = {"main": SHA}
        self.lock = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: a client that disconnects does not fail the test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        server, path = self.server, unquote(urlsplit(self.path).path)
        with server.lock:
            server.requests.append((path, dict(self.headers)))
            server.open += 1
            server.most_at_once = max(server.most_at_once, server.open)
            self.is_open = True
        try:
            first, _, rest = path[1:].partition("/")
            getattr(self, f"get_{first}", lambda _: self.ranged(path[1:]))(rest)
        finally:
            self.is_answered()

    def is_answered(self) -> None:
        """Count the request as no longer open.

        This comes before the answer is sent, because a client that has it may send more requests.
        """
        with self.server.lock:
            self.server.open -= self.is_open
            self.is_open = False

    def get_status(self, rest: str) -> None:
        status, _, _ = rest.partition("/")
        self.answer(int(status), b"no\n", {})

    def get_again(self, rest: str) -> None:
        """Answer 429 and 503 before the file, with a wait in seconds."""
        tries = sum(path.endswith(rest) for path, _ in self.server.requests)
        if tries <= 2:
            self.answer((429, 503)[tries - 1], b"", {"Retry-After": "0"})
        else:
            self.ranged(rest)

    def get_later(self, _: str) -> None:
        self.answer(429, b"", {"Retry-After": "3600"})

    def get_whole(self, rest: str) -> None:
        """Send the whole file, whatever was requested."""
        self.answer(200, (self.server.folder / rest).read_bytes(), {})

    def get_cut(self, rest: str) -> None:
        """Break off in the middle of the promised range."""
        self.ranged(rest, keep=10)

    def get_once_cut(self, rest: str) -> None:
        tries = sum(path.endswith(rest) for path, _ in self.server.requests)
        self.ranged(rest, keep=10 if tries == 1 else None)

    def get_slow(self, rest: str) -> None:
        time.sleep(2)
        self.ranged(rest)

    def get_dripping(self, rest: str) -> None:
        """Send a byte now and then, so that no single wait is long."""
        self.send_response(206)
        self.send_header(
            "Content-Range", f"bytes 0-65535/{(self.server.folder / rest).stat().st_size}"
        )
        self.send_header("Content-Length", "65536")
        self.end_headers()
        for _ in range(100):
            self.wfile.write(b"x")
            self.wfile.flush()
            time.sleep(0.1)

    def get_moved(self, rest: str) -> None:
        self.answer(302, b"", {"Location": f"/{rest}"})

    def get_toward(self, rest: str) -> None:
        """Redirect to another host, on the same port."""
        host, _, name = rest.partition("/")
        port = self.server.server_address[1]
        self.answer(302, b"", {"Location": f"http://{host}:{port}/{name}"})

    def get_digits(self, rest: str) -> None:
        """State the range in digits that are not ASCII."""
        body = (self.server.folder / rest).read_bytes()
        stated = f"bytes 0-{len(body) - 1}/{len(body)}"
        arabic = stated.translate({48 + at: 0xB2 for at in range(10)})  # a superscript 2
        self.answer(206, body, {"Content-Range": arabic})

    def get_long_size(self, rest: str) -> None:
        """State a length that Python would refuse to convert."""
        body = (self.server.folder / rest).read_bytes()
        self.answer(206, body, {"Content-Range": "bytes 0-9/" + "9" * 5000})

    def get_round(self, rest: str) -> None:
        self.answer(302, b"", {"Location": f"/round/{rest}"})

    def get_other(self, rest: str) -> None:
        """Send another range than the requested one."""
        size = (self.server.folder / rest).stat().st_size
        self.answer(206, b"12345678", {"Content-Range": f"bytes 8-15/{size}"})

    def get_more(self, rest: str) -> None:
        """Send far more than was requested."""
        body = (self.server.folder / rest).read_bytes()
        self.send_response(206)
        self.send_header("Content-Range", f"bytes 0-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(2**30))
        self.end_headers()
        self.wfile.write(body)
        while self.server.sent < 2**30:
            self.wfile.write(bytes(2**20))
            self.server.sent += 2**20

    def get_endless(self, _: str) -> None:
        """State a length with more digits than a number may have."""
        self.send_response(200)
        self.send_header("Content-Length", "9" * 5000)
        self.end_headers()
        self.close_connection = True

    def get_growing(self, rest: str) -> None:
        """State another length each time."""
        self.ranged(rest, size=2**40 + len(self.server.requests))

    def get_gzip(self, rest: str) -> None:
        assert self.headers["Accept-Encoding"] == "identity"
        self.ranged(rest)

    def get_pausing(self, rest: str) -> None:
        time.sleep(0.2)
        self.ranged(rest)

    def get_api(self, rest: str) -> None:
        """Answer as the hub does about a repository: its files at a commit."""
        found = re.fullmatch(r"models/(?P<id>[^/]+/[^/]+)(?:/revision/(?P<revision>.+))?", rest)
        assert found
        if found["id"] == "org/gated":
            self.answer(403, b"", {"X-Error-Code": "GatedRepo"})
        elif found["id"] == "org/broken":
            self.answer(500, b"", {})
        elif not (self.server.folder / found["id"]).is_dir():
            self.answer(401, b"", {"X-Error-Code": "RepoNotFound"})
        elif (revision := found["revision"] or "main") not in self.server.revisions:
            self.answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
        else:
            folder = self.server.folder / found["id"]
            names = sorted(
                str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
            )
            answer = {"id": found["id"], "sha": self.server.revisions[revision]}
            body = json.dumps(
                {**answer, "siblings": [{"rfilename": name} for name in names]}
            ).encode()
            self.answer(200, body, {"Content-Type": "application/json"})

    def get_org(self, rest: str) -> None:
        """Serve a repository's file as the hub does: by a redirect to another host."""
        found = re.fullmatch(r"(?P<name>[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)", rest)
        assert found
        assert self.server.revisions.get(found["revision"], found["revision"]) == SHA, (
            "a commit, so that all files are of one"
        )
        path = self.server.folder / "org" / found["name"] / found["file"]
        of_file = {
            "X-Repo-Commit": SHA,
            "ETag": f'"{path.name}"',
            "X-Linked-Size": str(path.stat().st_size if path.is_file() else 0),
        }
        self.answer(
            302,
            b"",
            {
                "Location": f"{self.server.elsewhere}/cdn/org/{found['name']}/{found['file']}",
                **of_file,
            },
        )

    def get_cdn(self, rest: str) -> None:
        if "Range" in self.headers:
            self.ranged(rest)
        else:
            self.answer(200, (self.server.folder / rest).read_bytes(), {})

    def ranged(self, name: str, keep: int | None = None, size: int | None = None) -> None:
        path = self.server.folder / name
        if not path.is_file():
            self.answer(404, b"", {})
            return
        size = size or path.stat().st_size
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        assert found, "only ranges are requested"
        begin, end = int(found[1]), min(int(found[2]) + 1, size)
        if begin >= size:
            self.answer(416, b"", {"Content-Range": f"bytes */{size}"})
            return
        self.server.ranges.append((name, begin, end))
        with path.open("rb") as file:
            file.seek(begin)
            body = file.read(end - begin)
        self.answer(
            206,
            body.ljust(end - begin, b"\0"),
            {"Content-Range": f"bytes {begin}-{end - 1}/{size}"},
            keep,
        )

    def answer(
        self, status: int, body: bytes, headers: dict[str, str], keep: int | None = None
    ) -> None:
        self.is_answered()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[:keep])
        self.server.sent += len(body[:keep])
        if keep is not None:
            self.close_connection = True


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Serve a folder while the block runs."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        os.environ.pop(name, None)
    server = Server(folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
