"""A headless browser, spoken to over a pipe: enough of its protocol to look at a page."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FOUND = next((path for path in map(shutil.which, NAMES) if path), None)
PATIENCE = 60.0
"""Seconds without a word before a browser is given up."""
needs_browser = pytest.mark.skipif(FOUND is None, reason="no Chromium is on this machine")


class Page:
    """One page, with all that it asked for and complained about."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._rest = b""
        self._last = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """Give a command and return what it answers."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._receive], [], [], PATIENCE)
            assert ready, f"the browser said nothing for {PATIENCE} s"
            part = os.read(self._receive, 1 << 20)
            assert part, "the browser went away"
            self._rest += part
        one, _, self._rest = self._rest.partition(b"\0")
        event = json.loads(one)
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(str(params["entry"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.complaints.append(str(params))
        return event

    def open(self, path: Path, width: int, *, dark: bool = False) -> None:
        """Show a file at a width of so many pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.resolve().as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def pdf(self) -> bytes:
        """Print the page."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])

    def picture(self, path: Path) -> None:
        """Write the whole page as a PNG."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """Run a browser with a profile of its own."""
    assert FOUND is not None
    to_read, to_send = os.pipe()
    receive, from_browser = os.pipe()

    def hand_over() -> None:
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, from_browser)]
        for number, end in enumerate(high, start=3):
            os.dup2(end, number)

    process = subprocess.Popen(
        [
            FOUND,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=hand_over,
        close_fds=False,
    )
    os.close(to_read)
    os.close(from_browser)
    try:
        yield Page(to_send, receive)
    finally:
        process.kill()
        process.wait(30)
        os.close(to_send)
        os.close(receive)
