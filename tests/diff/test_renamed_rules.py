"""A rule that applies to the same parameters under another key is one line, and no difference of these parameters."""

import json

import jsonschema
import pytest

from conftest import ROOT, linear_model, plan_text, run, write
from sides import RULES, compile_sides

VALIDATOR = jsonschema.Draft7Validator(json.loads((ROOT / "schemas" / "diff.schema.json").read_text()))
MODEL = linear_model(embed=[64, 8], **{f"layers__{i}__{name}": [8, 8] for i in range(32) for name in ("a", "b")})


@pytest.fixture
def diff(tmp_path):
    """diff(old rules, new rules): the document and the text; settings of plan_text for the new one."""

    def compare(old, new, model=MODEL, new_model=None, **settings):
        paths = compile_sides(tmp_path, old, new, model, new_model, **settings)
        result = run("diff", *paths, "--format", "json")
        document = json.loads(result.stdout)
        VALIDATOR.validate(document)
        assert result.returncode == (0 if document["same"] else 1)
        return document, run("diff", *paths).stdout.decode()

    return compare


def renamed(document):
    return {rule["key"]: rule["renamed_from"]["key"] for rule in document["rules"] if "renamed_from" in rule}


def test_renamed_rule_is_one_line(diff):
    document, text = diff(RULES, {"embed": "colwise", "layers.[0-9]*.a": "colwise", "layers.*.b": "rowwise"})
    assert text == (
        "0 of 65 parameters differ, 1 rule differs; 4.50 KiB per rank\n"
        "  = note: compiled from other inputs (plan sha256), which do not count as a difference\n"
        "\nrules\n  ~ layers.*.a -> layers.[0-9]*.a  matches 32\n"
    )
    assert renamed(document) == {"layers.[0-9]*.a": "layers.*.a"} and not document["same"]
    assert document["parameters"]["groups"] == document["modules"]["groups"] == []


def test_other_changes_of_a_renamed_rule_omit_the_name(diff):
    document, text = diff(RULES, {"embed": "colwise", "layers.[0-9]*.a": "rowwise", "layers.*.b": "rowwise"})
    assert renamed(document) == {"layers.[0-9]*.a": "layers.*.a"}
    (group,) = document["parameters"]["groups"]
    assert group["count"] == 32 and "rule" not in group["fields"] and group["fields"]["style"]["after"] == "rowwise"
    assert "layers.*.a -> layers.[0-9]*.a" in text and "      rule " not in text


def test_two_renamed_rules_are_distinguished(diff):
    document, _ = diff(RULES, {"embed": "colwise", "layers.*.[a]": "colwise", "layers.*.[b]": "rowwise"})
    assert renamed(document) == {"layers.*.[a]": "layers.*.a", "layers.*.[b]": "layers.*.b"}


def test_rule_moved_to_a_block_is_renamed(diff):
    document, text = diff(
        RULES, {"embed": "colwise", "layers.*.b": "rowwise"}, more='blocks:\n  "layers.*":\n    "a": colwise\n'
    )
    (rule,) = [rule for rule in document["rules"] if "renamed_from" in rule]
    assert (rule["block"], rule["key"], rule["renamed_from"]) == ("layers.*", "a", {"key": "layers.*.a"})
    assert "  ~ layers.*.a -> layers.* / a  matches 32\n" in text


@pytest.mark.parametrize(
    "new",
    [
        {"embed": "colwise", "layers.?.a": "colwise", "layers.??.a": "colwise", "layers.*.b": "rowwise"},
        {"embed": "colwise", "layers.?.a": "colwise", "layers.*.b": "rowwise"},
        {"embed": "colwise", "layers.*.[ab]": "colwise"},
        {"embed": "colwise", "layers.*.a": "colwise", "layers.0.a": "colwise", "layers.*.b": "rowwise"},
    ],
    ids=["split", "fewer layers", "two in one", "one layer of its own"],
)
def test_rule_for_other_parameters_is_another_rule(diff, new):
    for document, _ in (diff(RULES, new),):
        assert renamed(document) == {}
        assert any("rule" in group["fields"] for group in document["parameters"]["groups"])


def test_layers_of_only_one_model_are_ignored(diff):
    smaller = linear_model(embed=[64, 8], **{f"layers__{i}__{name}": [8, 8] for i in range(31) for name in ("a", "b")})
    document, text = diff(
        RULES, {"embed": "colwise", "layers.*.[a]": "colwise", "layers.*.b": "rowwise"}, new_model=smaller
    )
    assert renamed(document) == {"layers.*.[a]": "layers.*.a"} and document["parameters"]["removed"] == 2
    assert "  ~ layers.*.a -> layers.*.[a]  matches 32 -> 31\n" in text


def test_report_shows_the_old_name_of_a_rule(tmp_path):
    paths = []
    for number, key in enumerate(("layers.*.a", "layers.*.[a]")):
        (tmp_path / str(number)).mkdir()
        paths.append(tmp_path / str(number) / "manifest.json")
        assert (
            run(
                "compile", *write(tmp_path / str(number), MODEL, plan_text({key: "colwise"})), "-q", "-o", paths[-1]
            ).returncode
            == 0
        )
    page = run("report", paths[1], "--against", paths[0]).stdout.decode()
    assert '<code>layers.*.[a]</code> <span class="muted">was</span> <code>layers.*.a</code>' in page
