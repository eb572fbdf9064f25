"""JUnit's XML: one suite, a case for each diagnostic, and a passing case if there is none."""

import xml.etree.ElementTree

import pytest

from conftest import linear_model, plan_text
from read_formats import check_text, many_findings
from test_formats import CASES


def suite(folder, model, plan, *flags):
    root = xml.etree.ElementTree.fromstring(check_text(folder, model, plan, *flags, format="junit").stdout)
    (only,) = list(root)
    assert (root.tag, only.tag) == ("testsuites", "testsuite")
    return only


@pytest.mark.parametrize("case", CASES)
def test_suite_counts_its_cases(tmp_path, case):
    model, plan, flags, _, count = CASES[case]
    found = suite(tmp_path, model, plan, *flags)
    failures = found.findall("testcase/failure")
    assert int(found.get("tests")) == len(found.findall("testcase")) == max(1, count)
    assert int(found.get("failures")) == len(failures)
    assert (found.get("errors"), found.get("skipped")) == ("0", "0")


def test_one_case_passes_without_diagnostics(tmp_path):
    model, plan, *_ = CASES["nothing wrong"]
    case, _ = suite(tmp_path, model, plan)  # and the unchecked parts
    assert list(case) == []
    assert case.get("name") == "plan.yaml: checked for model.json"


def test_errors_fail_and_warnings_pass_with_output(tmp_path):
    found = suite(tmp_path, *many_findings(2, 1))
    assert [[child.tag for child in case] for case in found] == [["system-out"], ["failure"], ["failure"]]
    warning, error, _ = found
    assert error.find("failure").get("type") == "TP4001" and error.get("classname") == "tpplan.TP4001"
    assert error.get("name").endswith(": error[TP4001]: " + error.find("failure").get("message"))
    assert (error.get("file"), error.get("line")) == ("plan.yaml", "5")
    assert "help: " in error.find("failure").text
    assert warning.get("file") == "model.json" and "`unknown0`" in warning.find("system-out").text


def test_limit_names_the_file_that_exceeds_it(tmp_path):
    model, plan, flags, *_ = CASES["a limit"]
    (case,) = suite(tmp_path, model, plan, *flags)
    assert case.get("file") == "model.json" and ": error[TP9001]: " in case.get("name")


@pytest.mark.parametrize(
    "key", ["a\x00b", "a\x08b", "a\x1bb", "a\x7fb", "a\x9bb", "a\ufffeb", "a\uffffb", "<&>\"'", "]]>", "a\tb", "a\r\nb"]
)
def test_invalid_xml_characters_are_escaped_or_dropped(tmp_path, key):
    text = plan_text({}) + '  "' + "".join(f"\\U{ord(c):08X}" for c in key) + '": colwise\n'
    result = check_text(tmp_path, linear_model(w=[8, 8]), text, format="junit")
    root = xml.etree.ElementTree.fromstring(result.stdout)
    texts = [root[0][0].get("name"), *root[0][0].itertext()]
    assert result.returncode in (1, 2)
    assert not [
        c for t in texts for c in t if (ord(c) < 0x20 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c in "\ufffe\uffff"
    ]


def test_names_are_no_runner_commands(tmp_path):
    """A runner that prints the XML in its log executes `##[` anywhere in a line."""
    result = check_text(tmp_path, linear_model(w=[8, 8]), plan_text({"##[error]x": "colwise"}), format="junit")
    assert b"##[" not in result.stdout
    root = xml.etree.ElementTree.fromstring(result.stdout)
    assert "`##[error]x`" in root[0][0].get("name") and "`##[error]x`" in root[0][0].find("failure").text
