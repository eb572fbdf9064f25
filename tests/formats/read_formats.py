"""Reads every format of `tpplan check` into the same plain tuples, like the consumer of that format."""

import html
import json
import re
import urllib.parse
import xml.etree.ElementTree
from collections import namedtuple

from conftest import linear_model, plan_text, run, write

FORMATS = ("human", "json", "jsonl", "sarif", "github", "gitlab", "markdown", "junit")

# file, line and column are None if the diagnostic has no position; column also if the format has no columns.
Finding = namedtuple("Finding", "code severity file line column count")

HEADLINE = re.compile(r"^(?:(.*):(\d+):(\d+)|tpplan): (error|warning)\[(TP\d{4})\]: ", re.DOTALL)
MORE = re.compile(r"note: and (\d+) \S+(?: \S+)* more with the same cause")
COMMAND = re.compile(r"::(\w+)(?: ([^\n]*?))?::([^\n]*)")


def check(model, plan, *flags, format, cwd=None, stdin=None):
    """Runs `tpplan check` with a format, and returns the result of conftest.run."""
    return run("check", model, plan, "--format", format, "--color", "never", *flags, cwd=cwd, stdin=stdin)


def check_text(folder, model, plan, *flags, format):
    """Writes a model and a plan to model.json and plan.yaml in the folder, and runs check()."""
    write(folder, model, plan)
    return check("model.json", "plan.yaml", *flags, format=format, cwd=folder)


def described(folder, model, plan, *flags):
    """Returns the diagnostics of the JSON format as objects."""
    return json.loads(check_text(folder, model, plan, *flags, format="json").stdout)["diagnostics"]


def shown(name):
    """Returns a name as JUnit and human-readable formats print it: control and invisible characters are escaped."""
    names = {"\n": "\\n", "\t": "\\t"} | {c: f"\\u{ord(c):04x}" for c in "\xa0\u200b\u2028\u202e\ufeff"}
    return "".join(
        names.get(c, f"\\x{ord(c):02x}") if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 else names.get(c, c) for c in name
    )


def in_property(name):
    """Returns a name as GitHub reads it in `file=`: line breaks are escaped for the runner and decoded by it."""
    return "".join(part if part in "\r\n" else shown(part) for part in re.split(r"([\r\n])", name))


def at_line_start(text):
    """Returns text as printed at the beginning of a line, or within one, without commands to the CI runner."""
    return (r"\x3a" + text[1:] if text.startswith("::") else text).replace("##[", r"\x23#[")


def count_in(text):
    more = MORE.search(" ".join(text.split()))
    return 1 + int(more.group(1)) if more else 1


def headline(text):
    """Returns the Finding with `text` as its first line, with a count of 1."""
    file, line, column, severity, code = HEADLINE.match(text).groups()
    return Finding(code, severity, file, line and int(line), column and int(column), 1)


def read_human(text):
    blocks = []
    for line in text.split("\n"):
        if HEADLINE.match(line):
            blocks.append([line])
        elif blocks:
            blocks[-1].append(line)
    return [headline(block[0])._replace(count=count_in("\n".join(block))) for block in blocks]


def read_object(finding):
    """Returns the Finding of an object in json or jsonl."""
    place = finding["place"] or {}
    return Finding(
        finding["code"],
        finding["severity"],
        place.get("file"),
        place.get("line"),
        place.get("column"),
        finding["count"],
    )


def read_json(text):
    return [read_object(finding) for finding in json.loads(text)["diagnostics"]]


def read_jsonl(text):
    return [read_object(json.loads(line)) for line in text.splitlines()]


def read_sarif(text):
    findings = []
    for result in json.loads(text)["runs"][0]["results"]:
        location = result["locations"][0]["physicalLocation"] if result["locations"] else {}
        region = location.get("region")
        file = urllib.parse.unquote(location["artifactLocation"]["uri"]) if region else None
        line, column = (region["startLine"], region["startColumn"]) if region else (None, None)
        findings.append(Finding(result["ruleId"], result["level"], file, line, column, result["occurrenceCount"]))
    return findings


def commands(text):
    """Returns (name, properties, message) of every line that the runner reads as a workflow command."""
    found = []
    for line in text.split("\n"):
        command = COMMAND.fullmatch(line)
        if command:
            name, properties, message = command.groups()
            pairs = dict(pair.split("=", 1) for pair in (properties or "").split(",") if "=" in pair)
            found.append((name, {key: unescape(value) for key, value in pairs.items()}, unescape(message)))
    return found


def unescape(text):
    for written, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(written, character)
    return text


def read_github(text):
    findings = []
    for name, properties, message in commands(text):
        if name in ("error", "warning"):
            line, column = properties.get("line"), properties.get("col")
            findings.append(
                Finding(
                    properties["title"].split(":")[0],
                    name,
                    properties.get("file"),
                    line and int(line),
                    column and int(column),
                    count_in(message),
                )
            )
    return findings


def read_gitlab(text):
    severities = {"major": "error", "minor": "warning"}
    return [
        Finding(
            issue["check_name"],
            severities[issue["severity"]],
            issue["location"]["path"],
            issue["location"]["lines"]["begin"],
            None,
            count_in(issue["description"]),
        )
        for issue in json.loads(text)
    ]


def markdown_rows(text):
    """Returns the cells of the table as text: names as shown, one line per remark."""
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    return [[html.unescape(re.sub("</?code>", "", cell.replace("<br>", "\n"))) for cell in row] for row in rows]


def read_markdown(text):
    findings = []
    for severity, code, place, what in markdown_rows(text):
        file, line, column = place.rsplit(":", 2) if place != "tpplan" else (None, None, None)
        findings.append(Finding(code, severity, file, line and int(line), column and int(column), count_in(what)))
    return findings


def read_junit(text):
    findings = []
    for case in xml.etree.ElementTree.fromstring(text).iter("testcase"):
        body = case.find("failure") if case.find("failure") is not None else case.find("system-out")
        if body is not None:
            findings.append(headline(case.get("name"))._replace(count=count_in(body.text)))
    return findings


READERS = {
    "human": read_human,
    "json": read_json,
    "jsonl": read_jsonl,
    "sarif": read_sarif,
    "github": read_github,
    "gitlab": read_gitlab,
    "markdown": read_markdown,
    "junit": read_junit,
}


def read(format, output):
    """Returns the Findings in the program's output."""
    return READERS[format](output.decode("utf-8"))


def many_findings(errors, warnings):
    """A model and a plan with `errors` errors (rules that match nothing) and `warnings` warnings (unknown keys in the
    model).
    """
    model = linear_model(w=[8, 8])
    model["modules"][1] |= {f"unknown{i}": 0 for i in range(warnings)}
    return model, plan_text({f"nothing{i:05}": "colwise" for i in range(errors)} | {"w": "colwise"})
