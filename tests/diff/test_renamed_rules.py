"""A rule that decides over the same things under another name is one line, and no difference of what it decides over."""

import json

import jsonschema
import pytest

from conftest import ROOT, linear_model, plan_text, run, write
from sides import RULES, compile_sides

VALIDATOR = jsonschema.Draft7Validator(json.loads((ROOT / "schemas" / "diff.schema.json").read_text()))
MODEL = linear_model(embed=[64, 8], **{f"layers__{i}__{name}": [8, 8] for i in range(32) for name in ("a", "b")})


@pytest.fixture
def diff(tmp_path):
    """diff(old rules, new rules): the document and the words; settings of plan_text for the new one."""

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


def test_a_renamed_rule_is_one_line(diff):
    document, text = diff(RULES, {"embed": "colwise", "layers.[0-9]*.a": "colwise", "layers.*.b": "rowwise"})
    assert text == (
        "0 of 65 parameters differ, 1 rule differs; 4.50 KiB per rank\n"
        "  = note: made from other inputs (plan sha256), which alone is no difference\n"
        "\nrules\n  ~ layers.*.a -> layers.[0-9]*.a  matches 32\n"
    )
    assert renamed(document) == {"layers.[0-9]*.a": "layers.*.a"} and not document["same"]
    assert document["parameters"]["groups"] == document["modules"]["groups"] == []


def test_what_else_a_renamed_rule_does_is_said_without_the_name(diff):
    document, text = diff(RULES, {"embed": "colwise", "layers.[0-9]*.a": "rowwise", "layers.*.b": "rowwise"})
    assert renamed(document) == {"layers.[0-9]*.a": "layers.*.a"}
    (group,) = document["parameters"]["groups"]
    assert group["count"] == 32 and "rule" not in group["fields"] and group["fields"]["style"]["after"] == "rowwise"
    assert "layers.*.a -> layers.[0-9]*.a" in text and "      rule " not in text


def test_two_rules_that_change_their_names_are_told_apart(diff):
    document, _ = diff(RULES, {"embed": "colwise", "layers.*.[a]": "colwise", "layers.*.[b]": "rowwise"})
    assert renamed(document) == {"layers.*.[a]": "layers.*.a", "layers.*.[b]": "layers.*.b"}


def test_a_rule_in_another_block_is_renamed(diff):
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
def test_a_rule_that_decides_over_other_things_is_another_rule(diff, new):
    for document, _ in (diff(RULES, new),):
        assert renamed(document) == {}
        assert any("rule" in group["fields"] for group in document["parameters"]["groups"])


def test_layers_that_only_one_model_has_are_not_asked(diff):
    smaller = linear_model(embed=[64, 8], **{f"layers__{i}__{name}": [8, 8] for i in range(31) for name in ("a", "b")})
    document, text = diff(
        RULES, {"embed": "colwise", "layers.*.[a]": "colwise", "layers.*.b": "rowwise"}, new_model=smaller
    )
    assert renamed(document) == {"layers.*.[a]": "layers.*.a"} and document["parameters"]["removed"] == 2
    assert "  ~ layers.*.a -> layers.*.[a]  matches 32 -> 31\n" in text


def test_the_page_says_what_a_rule_was_called(tmp_path):
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
