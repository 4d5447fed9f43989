"""A page in a real browser: Chromium without a window, by the DevTools protocol over a pipe."""

import base64
import json
import os
import shutil
import subprocess
import tempfile

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One tab. Everything that goes wrong in a page is in `problems`."""

    def __init__(self):
        if CHROMIUM is None:
            raise RuntimeError("tests of the page need chromium")
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        ours, theirs = os.pipe(), os.pipe()  # what we read, what they read
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        # Chromium reads from descriptor 3 and writes to 4
        shell = f'exec "$@" 3<&{theirs[0]} 4>&{ours[1]}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", shell, "-", *command],
            pass_fds=(theirs[0], ours[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs[0])
        os.close(ours[1])
        self._reader, self._writer = os.fdopen(ours[0], "rb", 0), os.fdopen(theirs[1], "wb", 0)
        self._buffer, self._number, self._session = b"", 0, None
        self.problems, self._events = [], []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()
        self._reader.close()
        self._writer.close()
        self._profile.cleanup()

    def __call__(self, method, **parameters):
        """Send a command and return its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._writer.write(json.dumps(message).encode() + b"\0")
        answer = {}
        while answer.get("id") != self._number:
            answer = self._receive()
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _receive(self):
        while b"\0" not in self._buffer:
            part = self._reader.read(2**16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        self._events.append(method)
        if method == "Runtime.exceptionThrown":
            self.problems.append(parameters["exceptionDetails"]["exception"]["description"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.problems.append(parameters["args"])
        elif method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith(("file:", "data:", "about:", "chrome:")):
                self.problems.append(f"asks for {url}")
        return message

    def open(self, path, *, width, dark=False, mobile=False, height=900):
        """Load a file at a width in CSS pixels, in one of the two colour schemes."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=2 if mobile else 1, mobile=mobile,
        )  # fmt: skip
        self._events.clear()
        self("Page.navigate", url=path.resolve().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._receive()
        self.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def run(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        answer = self(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def press(self, key, code):
        """Press a key, by its name and Windows' number of it, and wait until it is drawn."""
        for kind in ("rawKeyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)
        self.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def screenshot(self, path, clip=None):
        """Save a picture of the whole page, or of a rectangle (x, y, width, height) of it."""
        size = self("Page.getLayoutMetrics")["cssContentSize"]
        x, y, width, height = clip or (0, 0, size["width"], size["height"])
        box = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        data = self("Page.captureScreenshot", captureBeyondViewport=True, clip=box)["data"]
        path.write_bytes(base64.b64decode(data))
