"""The guarantees for every invalid input: an exit status, a message with a code and a place, and no output files."""

import json
import re

import pytest
from conftest import linear_model, run

# `file:line:col: error[TP1234]: message`
DIAGNOSTIC = re.compile(
    r"^(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): "
    r"(?P<severity>error|warning)\[(?P<code>TP\d{4})\]: \S"
)
# Control characters, DEL, C1 controls, direction overrides and invisible characters: they move a cursor, reorder text or
# hide in it.
UNPRINTABLE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f\x80-\xa0\xad\u034f\u061c\u115f\u1160\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)

HEAD = "format: tpplan.plan/1\n"
PLAN = HEAD + "mesh: {tp: 4}\ntp_plan:\n  wq: colwise\n"
MODEL = linear_model(wq=[16, 8])


def case(name, file, status, code=None, place=None, says=None, marks=()):
    """One row of a table: the invalid file (text, bytes, or a function that returns it), the exit status, the reported code,
    its place (line and column, or the text there), and words of the message or its help."""
    return pytest.param(file, status, code, place, says, id=name, marks=marks)


def hold(folder, status, code=None, *, model=MODEL, plan=PLAN, file=None, place=None, says=None, flags=()):
    """Compiles a model and a plan in `folder` and checks the guarantees. `file` is the invalid one of the two ("model" or
    "plan"). Returns the result with the manifest as `manifest` (None without one)."""
    for name, content in (("model.json", model), ("plan.yaml", plan)):
        (folder / name).write_bytes(as_bytes(content))
    output = folder / "manifest.json"
    result = run("compile", "model.json", "plan.yaml", "-o", output.name, *flags, cwd=folder)
    text = printable(result.stderr)
    assert result.returncode == status, f"exit status {result.returncode}, promised {status}\n{text}"
    assert not list(folder.glob(".tpplan-*")), "a temporary file was left behind"
    assert output.exists() == (status == 0), "a manifest stands exactly when all is well"
    if code is not None:
        severity = "error" if status else "warning"
        found = [m for m in map(DIAGNOSTIC.match, text.splitlines()) if m and m["code"] == code]
        assert found, f"{code} is not reported\n{text}"
        assert found[0]["severity"] == severity, text
        if file is not None:
            assert found[0]["file"] == {"model": "model.json", "plan": "plan.yaml"}[file], text
        if isinstance(place, str):
            place = place_of(as_bytes({"model": model, "plan": plan}[file]), place.encode())
        if place is not None:
            assert (int(found[0]["line"]), int(found[0]["column"])) == place, text
    assert "exception" not in text and "internal" not in text, f"a message of a library shows through\n{text}"
    if status != 0:
        first = DIAGNOSTIC.match(text.splitlines()[0])
        assert first, f"the first line is no diagnostic\n{text}"
        assert "error[" in text, text
    for words in [says] if isinstance(says, str) else says or []:
        assert words in " ".join(text.split()), text
    result.manifest = json.loads(output.read_bytes()) if status == 0 else None
    output.unlink(missing_ok=True)
    return result


def as_bytes(content):
    content = content() if callable(content) else content
    content = json.dumps(content) if isinstance(content, dict) else content
    return content if isinstance(content, bytes) else content.encode()


def place_of(content, part):
    """Returns line and column of the first `part`, from 1 and in bytes."""
    before = content[: content.index(part)]
    return before.count(b"\n") + 1, len(before) - before.rfind(b"\n")


def printable(stderr):
    """Returns standard error as text; it must be UTF-8 without control characters."""
    text = stderr.decode()
    bad = UNPRINTABLE.search(text)
    assert bad is None, f"a message holds {bad[0]!r}: {text[max(0, bad.start() - 60) : bad.end() + 20]!r}"
    return text
