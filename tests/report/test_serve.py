"""`replaycheck view`: loopback only, no listing, nothing but the run's own files, and Ctrl-C ends it well."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.report.serve import Server, serve
from replaycheck.report.write import write_all

Write = Callable[..., Path]


@contextmanager
def serving(run: Path) -> Iterator[Server]:
    server = serve(run)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(server: Server, path: str, method: str = "GET", host: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.server_port}")
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


@pytest.fixture
def run(write_run: Write) -> Path:
    run = write_run()
    write_all(run)
    return run


def test_it_serves_the_report_and_the_files_that_it_names(run: Path) -> None:
    with serving(run) as server:
        page = (run / "report.html").read_bytes()
        assert ask(server, "/") == (200, page)
        assert ask(server, "/report.html?x=1") == (200, page)
        assert ask(server, "/result.json") == (200, (run / "result.json").read_bytes())
        assert ask(server, "/", "HEAD") == (200, b"")


def test_it_serves_nothing_else_and_lists_nothing(run: Path) -> None:
    (run / "secret.txt").write_text("secret")
    (run.parent / "outside.txt").write_text("outside")
    (run / "log.txt").symlink_to(run.parent / "outside.txt")
    with serving(run) as server:
        for path in ("/secret.txt", "/pairs/", "/pairs", "/../outside.txt", "/%2e%2e/outside.txt", "/log.txt", "*"):
            assert ask(server, path) == (404, b"not found\n"), path
        assert ask(server, "/", "POST")[0] == 501


def test_it_listens_on_loopback_only_and_refuses_other_hosts(run: Path) -> None:
    with serving(run) as server:
        assert server.server_address[0] == "127.0.0.1"
        assert ask(server, "/", host=f"evil.example:{server.server_port}")[0] == 403
        assert ask(server, "/", host=f"localhost:{server.server_port}")[0] == 200


def test_a_port_that_is_taken_is_said(run: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(EngineEnvironmentError, match="leave --port out"):
            serve(run, other.getsockname()[1])


def test_a_run_without_a_report_says_how_to_make_one(write_run: Write) -> None:
    with pytest.raises(UsageError, match="replaycheck report"):
        serve(write_run())


def _heeds_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_it_with_exit_code_0(run: Path) -> None:
    command = [sys.executable, "-m", "replaycheck.cli.main", "view", str(run), "--no-browser"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A background job without job control ignores Ctrl-C, and so would its children: the test would wait for ever.
    with subprocess.Popen(command, **pipes, text=True, env=env, preexec_fn=_heeds_ctrl_c) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        port = int(url.rstrip("/").rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
