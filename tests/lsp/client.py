"""A client of `tpplan lsp`, like an editor: over standard input and output, one message at a time."""

import contextlib
import json
import os
import pathlib
import select
import subprocess
import time

from conftest import PROGRAM

PATIENCE = 60  # seconds for immediate replies, on a busy machine


class Client:
    """A running server. `told` has the latest diagnostics that it sent for each document."""

    def __init__(self, *flags, cwd=None):
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TPPLAN_")}
        self.process = subprocess.Popen(
            [PROGRAM, "lsp", *map(str, flags)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=clean,
        )
        self.bytes, self.told, self.number = b"", {}, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def write(self, text):
        self.process.stdin.write(text if isinstance(text, bytes) else text.encode())
        self.process.stdin.flush()

    def send(self, message):
        body = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        self.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def notify(self, method, **params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def read(self):
        """Returns the next message of the server; None at its end."""
        until = time.monotonic() + PATIENCE
        while True:
            head, end, rest = self.bytes.partition(b"\r\n\r\n")
            if end:
                assert head.startswith(b"Content-Length: "), head
                length = int(head[16:])
                if len(rest) >= length:
                    self.bytes = rest[length:]
                    return json.loads(rest[:length])
            ready, _, _ = select.select([self.process.stdout], [], [], until - time.monotonic())
            assert ready, "the server says nothing"
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                assert not self.bytes, "half a message"
                return None
            self.bytes += piece

    def answer(self):
        """Returns the next response. Stores earlier notifications in `told`."""
        while True:
            message = self.read()
            assert message is not None, "the server has ended"
            if "id" in message:
                return message
            self.keep(message)

    def keep(self, message):
        assert message["method"] == "textDocument/publishDiagnostics"
        self.told[message["params"]["uri"]] = message["params"]["diagnostics"]

    def ask(self, method, **params):
        """Returns the result of a request; an error response fails the test."""
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        message = self.answer()
        assert message["id"] == self.number and "error" not in message, message
        return message["result"]

    def findings(self):
        """Returns the next diagnostics that the server sends."""
        message = self.read()
        self.keep(message)
        return message["params"]["diagnostics"]

    def start(self, **params):
        return self.ask("initialize", processId=None, capabilities={}, **params)

    def open(self, path, text=None, version=1):
        """Opens a document and returns its diagnostics."""
        text = pathlib.Path(path).read_text() if text is None else text
        document = {"uri": uri_of(path), "languageId": "yaml", "version": version, "text": text}
        self.notify("textDocument/didOpen", textDocument=document)
        return self.findings()

    def change(self, path, text, version=2):
        document = {"uri": uri_of(path), "version": version}
        self.notify("textDocument/didChange", textDocument=document, contentChanges=[{"text": text}])
        return self.findings()

    def at(self, method, path, line, character):
        place = {"line": line, "character": character}
        return self.ask(f"textDocument/{method}", textDocument={"uri": uri_of(path)}, position=place)

    def actions(self, path, found):
        context = {"diagnostics": [found]}
        document = {"uri": uri_of(path)}
        return self.ask("textDocument/codeAction", textDocument=document, range=found["range"], context=context)

    def end(self):
        """Shuts the server down like an editor, and returns its exit status."""
        assert self.ask("shutdown") is None
        self.send({"jsonrpc": "2.0", "method": "exit"})
        return self.process.wait(PATIENCE)


def uri_of(path):
    return pathlib.Path(path).as_uri()


def edited(text, edits):
    """Returns the text with edits of the protocol. @pre lines end with "\\n", and characters are one UTF-16 unit
    each.
    """
    lines = text.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
    offset = lambda place: starts[place["line"]] + place["character"]
    for edit in sorted(edits, key=lambda edit: offset(edit["range"]["start"]), reverse=True):
        begin, end = offset(edit["range"]["start"]), offset(edit["range"]["end"])
        text = text[:begin] + edit["newText"] + text[end:]
    return text
