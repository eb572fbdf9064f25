"""Headless Chromium, controlled through its DevTools pipe: file descriptors 3 and 4, JSON messages that end with a zero
byte.
"""

import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

PROGRAM = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
DEADLINE = 60


class Browser:
    def __init__(self, folder):
        read_commands, self.commands = os.pipe()
        self.replies, write_replies = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
            "about:blank",
        ]
        # Duplicates above 9 first, because the pipes themselves may be 3 and 4.
        high = [os.dup2(fd, fd + 40) for fd in (read_commands, write_replies)]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{high[0]} 4>&{high[1]} {high[0]}<&- {high[1]}>&-', "bash", PROGRAM, *flags],
            pass_fds=high,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for fd in (read_commands, write_replies, *high):
            os.close(fd)
        self.buffer, self.last_id, self.events, self.session = b"", 0, [], None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def message(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.replies], [], [], left)[0]:
                raise TimeoutError("chromium does not answer")
            piece = os.read(self.replies, 1 << 16)
            if not piece:
                raise EOFError("chromium has ended")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def send(self, method, **params):
        """Sends one command and returns its result. Stores the events that arrive meanwhile."""
        self.last_id += 1
        command = {"id": self.last_id, "method": method, "params": params} | (
            {"sessionId": self.session} if self.session else {}
        )
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self.commands, data) :]
        deadline = time.monotonic() + DEADLINE
        while (message := self.message(deadline)).get("id") != self.last_id:
            self.events.append(message)
        assert "error" not in message, message
        return message["result"]

    def wait_for(self, event):
        deadline = time.monotonic() + DEADLINE
        while not any(message.get("method") == event for message in self.events):
            self.events.append(self.message(deadline))

    def open(self, path, width=1280, height=900, dark=False):
        """Opens a file. `events` has the events since then."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.events = []
        self.send("Page.navigate", url=pathlib.Path(path).as_uri())
        self.wait_for("Page.loadEventFired")

    def evaluate(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def click(self, selector):
        """Clicks with the mouse on the middle of the element's left edge."""
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(); return [r.left + 20, r.top + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, code):
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                text="\r" if key == "Enter" and kind == "keyDown" else "",
            )

    def screenshot(self, **options):
        """Returns a PNG of the viewport."""
        return base64.b64decode(self.send("Page.captureScreenshot", format="png", **options)["data"])

    def close(self):
        with contextlib.suppress(Exception):
            self.session = None
            self.send("Browser.close")
        for fd in (self.commands, self.replies):
            os.close(fd)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
