"""tpplan diff: every difference is listed, the same change once, with the exit status of diff(1)."""

import copy
import json
import re

import jsonschema
import pytest
from conftest import ROOT, linear_model, plan_text, run, signed, write

VALIDATOR = jsonschema.Draft7Validator(json.loads((ROOT / "schemas" / "diff.schema.json").read_text()))
LAYERS = 6
MODEL = linear_model(
    embed=[64, 8],
    **{
        f"layers__{i}__{name}": shape
        for i in range(LAYERS)
        for name, shape in (("wq", ([16, 8], [16])), ("wo", [8, 16]), ("norm", [8, 8]))
    },
)
MODEL["modules"][1]["buffers"] = {"scale": {"shape": [4], "dtype": "float32"}}
RULES = {"embed": "colwise", "layers.*.wq": "colwise", "layers.*.wo": "rowwise"}


@pytest.fixture
def manifest(tmp_path):
    """manifest(rules, ...): compiles, writes the manifest to a separate file, returns the path."""
    made = []

    def make(rules=RULES, model=MODEL, **settings):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(folder / "manifest.json")
        text = rules if isinstance(rules, str) else plan_text(rules, **settings)
        result = run("compile", *write(folder, model, text), "-o", made[-1], "--allow", "TP4006")
        assert result.returncode == 0, result.stderr.decode()
        return made[-1]

    return make


def diff(old, new, *flags):
    """Exit status and document; checks that human-readable output and JSON have the same status."""
    result = run("diff", old, new, "--format", "json", *flags)
    assert result.returncode in (0, 1) and result.stderr == b"", result
    document = json.loads(result.stdout)
    VALIDATOR.validate(document)
    assert result.returncode == (0 if document["same"] or "--exit-zero" in flags else 1)
    assert run("diff", old, new, *flags).returncode == result.returncode
    return document


def words(old, new, *flags):
    return run("diff", old, new, *flags).stdout.decode()


def edited(path, tmp_path, change, name="edited.json"):
    document = json.loads(path.read_text())
    change(document)
    (tmp_path / name).write_text(json.dumps(signed(document)))
    return tmp_path / name


def expand(document, part):
    """{path: (change, fields)} of a list, with all groups expanded."""
    out = {}
    for group in document[part]["groups"]:
        paths = [path for family in group["families"] for path in family["paths"]]
        assert len(paths) == group["count"] and group["example"] == paths[0]
        for path in paths:
            assert path not in out
            out[path] = (group["change"], group["fields"])
    return out


FIELDS = (
    "shape",
    "dtype",
    "spec",
    "placements",
    "segments",
    "local_shapes",
    "style",
    "rule",
    "reason",
    "replicas",
    "grad_reduce",
    "kind",
    "init",
    "dims",
)


def fields_of(manifest, tensor):
    rule = (
        None
        if tensor["rule"] is None
        else {k: v for k, v in manifest["rules"][tensor["rule"]].items() if k in ("block", "key")}
    )
    shapes = tensor.get("local_shapes") or [tensor["local_shape"]]
    init = None if tensor["init"] is None else manifest["init"]["distributions"][tensor["init"]]
    return {key: tensor.get(key) for key in FIELDS} | {"rule": rule, "init": init, "local_shapes": shapes}


def expected_tensors(old, new, part):
    """The same, computed from the two files."""
    before = {t["path"]: fields_of(old, t) for t in old[part]}
    after = {t["path"]: fields_of(new, t) for t in new[part]}
    out = {}
    for path in before.keys() | after.keys():
        if path not in before:
            out[path] = ("added", {key: {"after": value} for key, value in after[path].items()})
        elif path not in after:
            out[path] = ("removed", {key: {"before": value} for key, value in before[path].items()})
        elif before[path] != after[path]:
            out[path] = (
                "changed",
                {
                    key: {"before": before[path][key], "after": after[path][key]}
                    for key in FIELDS
                    if before[path][key] != after[path][key]
                },
            )
    return out


def test_manifest_equals_itself(manifest):
    path = manifest()
    document = diff(path, path)
    assert document["same"] and document["inputs"] == document["settings"] == {} and document["rules"] == []
    assert all(document[part]["groups"] == [] for part in ("parameters", "buffers", "modules"))
    assert words(path, path).startswith("the manifests are equal: 25 parameters, ")


def test_places_hashes_and_order_are_no_difference(manifest, tmp_path):
    old, new = manifest(), manifest("# a comment\n" + plan_text(dict(reversed(RULES.items()))))
    document = diff(old, new)
    assert document["same"] and list(document["inputs"]) == ["plan_sha256"]
    assert "note: compiled from other inputs (plan sha256), which do not count as a difference" in words(old, new)

    def shuffle(m):
        m["parameters"].reverse()
        m["modules"].reverse()
        m["tool"] = "tpplan 9.9.9"

    assert diff(old, edited(old, tmp_path, shuffle))["same"]


@pytest.mark.parametrize(
    "new",
    [
        RULES | {"layers.*.wq": "rowwise", "layers.*.wo": "colwise"},
        {"embed": "colwise"},
        RULES | {"layers.3.wo": "replicate"},
        RULES | {"layers.*.norm": "replicate"},
        {key: "replicate" for key in RULES},
        RULES | {"layers.*.wq": {"spec": ["tp"]}},
    ],
    ids=["swapped", "fewer", "one layer", "replicate", "nothing cut", "a spec"],
)
def test_every_changed_parameter_has_all_changed_fields(manifest, new):
    new = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in new.items()}
    if '{"spec": ["tp"]}' in new.values():
        new.pop("layers.*.wq")
        new |= {"layers.*.wq.weight": "[tp, null]", "layers.*.wq.bias": "[tp]"}
    old, new = manifest(), manifest(new)
    document = diff(old, new)
    expected = expected_tensors(json.loads(old.read_text()), json.loads(new.read_text()), "parameters")
    assert expected and expand(document, "parameters") == expected
    counts = {change: sum(c == change for c, _ in expected.values()) for change in ("changed", "added", "removed")}
    assert {key: document["parameters"][key] for key in counts} == counts
    assert words(old, new).startswith(f"{len(expected)} of 25 parameters differ{'s' * (len(expected) == 1)}, ")


STEP = {f"model.layers.*.self_attn.{n}_proj": "colwise" for n in "qkv"} | {"model.layers.*.self_attn.o_proj": "rowwise"}


def test_added_and_removed_calls_match_the_manifests(tmp_path):
    def compiled(name, rules, *flags):
        (tmp_path / "plan.yaml").write_text(plan_text(rules, mesh="{tp: 8}", dialect="transformers"))
        result = run(
            "compile", ROOT / "plans/models/llama-3-8b.json", tmp_path / "plan.yaml", "-o", tmp_path / name, *flags
        )
        assert result.returncode == 0, result.stderr.decode()
        return tmp_path / name

    def counted(path):
        found = {}
        for call in json.loads(path.read_text())["collectives"]:
            key = call["phase"], call["kind"], call["axis"], re.sub(r"\d+", "*", call["module"]), call["dtype"]
            count, size, shapes = found.setdefault(key, (0, 0, []))
            found[key] = count + 1, size + call["bytes"], shapes + [call["shape"]] * (call["shape"] not in shapes)
        return found

    old, new = compiled("old.json", STEP), compiled("new.json", STEP | {"lm_head": "colwise_gather_output"})
    more = compiled("more.json", STEP, "--batch", "4")
    for before, after in ((old, new), (new, old), (old, more)):
        a, b = counted(before), counted(after)
        expected = {
            key: (a.get(key, (0, 0, [])), b.get(key, (0, 0, [])))
            for key in a.keys() | b.keys()
            if a.get(key) != b.get(key)
        }
        found = {
            tuple(c[k] for k in ("phase", "kind", "axis", "module", "dtype")): (
                (c["before"], c["bytes_before"], c["shapes_before"]),
                (c["after"], c["bytes_after"], c["shapes_after"]),
            )
            for c in diff(before, after)["calls"]
        }
        assert expected and found == expected
    text = words(old, new)
    assert (
        "calls of a step: 128 -> 130, " in text
        and "+ forward   all_gather over tp  lm_head\n      0 -> 1 calls, 0 B -> 125.2 MiB, none -> [2, 2048, 16032] bfloat16"
        in text
    )
    assert (
        "~ forward   all_reduce over tp  model.layers.{0..31}.self_attn.o_proj\n"
        "      32 calls, 1.00 GiB -> 2.00 GiB, [2, 2048, 4096] -> [4, 2048, 4096] bfloat16" in words(old, more)
    )
    assert not diff(old, more)["same"] and diff(old, old)["calls"] == []
    assert "step" not in diff(old, new)["settings"]
    assert diff(old, more)["settings"]["step"] == {
        "before": {"batch": 2, "sequence": 2048, "unlisted": []},
        "after": {"batch": 4, "sequence": 2048, "unlisted": []},
    }
    assert "batch 2, sequence 2048 -> batch 4, sequence 2048" in words(old, more)


def test_calls_listed_in_one_manifest_are_no_difference(manifest, tmp_path):
    old = manifest()
    new = edited(old, tmp_path, lambda m: m.__setitem__("collectives", []))
    document = diff(old, new)
    assert document["same"] and "calls" not in document
    assert "only the new manifest lists them" in words(old, new)


def test_llama_plan_against_fsdp_and_sequence_parallelism(tmp_path):
    paths = []
    for plan in ("llama", "llama-fsdp-tp"):
        paths.append(tmp_path / f"{plan}.json")
        assert (
            run(
                "compile", ROOT / "plans/models/llama-3-8b.json", ROOT / "plans" / f"{plan}.yaml", "-o", paths[-1]
            ).returncode
            == 0
        )
    old, new = (json.loads(p.read_text()) for p in paths)
    document = diff(*paths)
    for part in ("parameters", "buffers"):
        assert expand(document, part) == expected_tensors(old, new, part)
    assert set(document["settings"]) == {
        key for key in ("mesh", "uneven", "data", "costs", "fsdp", "remat") if old.get(key) != new.get(key)
    }
    assert all(sides == {"before": old[key], "after": new[key]} for key, sides in document["settings"].items())
    groups = document["parameters"]["groups"]
    assert sum(group["count"] for group in groups) == 291 and len(groups) < 12
    modules = expand(document, "modules")
    boundaries = [{m["path"]: m for m in side["modules"]} for side in (old, new)]
    assert {path for path, (change, _) in modules.items() if change == "added"} == boundaries[1].keys() - boundaries[
        0
    ].keys()
    for path, (change, fields) in modules.items():
        for key in fields.keys() - {"rule"}:
            assert fields[key].get("after") == boundaries[1][path][key]
    counted = {
        (c["phase"], c["kind"], c["axis"]): (c["before"], c["after"], c["bytes_before"], c["bytes_after"])
        for c in document["collectives"]
    }
    assert counted == expected_collectives(old, new)


def expected_collectives(old, new):
    out = {}
    for side, manifest in enumerate((old, new)):
        steps = [
            (phase, step)
            for m in manifest["modules"]
            for v in m["inputs"] + m["outputs"]
            for phase in ("forward", "backward")
            for step in v.get(phase, [])
        ]
        again = {path for group in manifest["tied"] for path in group[1:]}
        steps += [
            ({"gather": "gather", "reduce": "gradient"}[step["part"]], step)
            for p in manifest["parameters"]
            if p["path"] not in again
            for step in p.get("steps", [])
        ]
        for phase, step in steps:
            if step["kind"] != "slice":
                sums = out.setdefault((phase, step["kind"], step["axis"]), [0, 0, 0, 0])
                sums[side] += 1
                sums[2 + side] += step.get("bytes", 0)
    return {key: tuple(counts) for key, counts in out.items()}


def test_layers_are_one_family_and_a_subset_is_named(manifest):
    old, new = manifest(), manifest(RULES | {"layers.3.wo": "replicate"})
    (group,) = diff(old, new)["parameters"]["groups"]
    assert group["families"] == [{"pattern": "layers.*.wo.weight", "of": 6, "paths": ["layers.3.wo.weight"]}]
    assert "  ~ layers.3.wo.weight  (1 of 6)\n" in words(old, new)
    group = next(g for g in diff(old, manifest({"embed": "colwise", "layers.*.wq": "colwise"}))["parameters"]["groups"])
    assert (
        group["count"] == 6
        and group["families"][0]["pattern"] == "layers.*.wo.weight"
        and group["example"] == "layers.0.wo.weight"
    )


def test_equal_changes_are_one_group_under_any_names(manifest):
    model = linear_model(**{f"l__{i}__{name}": [8, 8] for i in range(3) for name in ("a", "b", "c")})
    old, new = manifest({"l.*.?": "colwise"}, model), manifest({"l.*.?": "rowwise"}, model)
    (group,) = diff(old, new)["parameters"]["groups"]
    assert [family["pattern"] for family in group["families"]] == ["l.*.a.weight", "l.*.b.weight", "l.*.c.weight"]
    assert group["fields"]["spec"] == {"before": ["tp", None], "after": [None, "tp"]}
    assert words(old, new).count("[tp, null] -> [null, tp]") == 1


def test_added_and_removed_parameters_modules_and_buffers(manifest):
    smaller = copy.deepcopy(MODEL)
    smaller["modules"] = [m for m in smaller["modules"] if not m["path"].startswith("layers.5")]
    del smaller["modules"][1]["buffers"]
    old, new = manifest(), manifest(model=smaller)
    document, back = diff(old, new), diff(new, old)
    assert document["parameters"]["removed"] == back["parameters"]["added"] == 4
    assert document["modules"]["removed"] == back["modules"]["added"] == 2
    assert document["buffers"]["removed"] == back["buffers"]["added"] == 1
    assert expand(document, "parameters") == expected_tensors(
        json.loads(old.read_text()), json.loads(new.read_text()), "parameters"
    )
    assert [(r["before"], r["after"]) for r in document["rules"]] == [(12, 10), (6, 5)]
    text = words(old, new)
    assert text.startswith("4 of 25 parameters differ, 2 of 13 module boundaries differ; ")
    assert "  - layers.5.wq.weight  (1 of 6)\n" in text and "  ~ layers.*.wo  matches 6 -> 5\n" in text


@pytest.mark.parametrize(
    "settings, key",
    [
        ({"mesh": "{dp: 2, tp: 2}", "more": "data: {axes: [dp]}\n"}, "mesh"),
        ({"mesh": "{tp: 2}"}, "mesh"),
        ({"more": "uneven: torch\n"}, "uneven"),
        ({"more": "fsdp: {axis: tp}\n"}, "fsdp"),
        ({"more": 'remat: ["layers.*"]\n'}, "remat"),
        ({"mesh": "{dp: 1, tp: 2}", "more": "data: {axes: [dp]}\n"}, "data"),
        ({"more": "loss: {reduction: sum, axes: []}\n"}, "loss"),
    ],
    ids=["axis", "size", "uneven", "fsdp", "remat", "data", "loss"],
)
def test_every_setting_is_a_difference(manifest, settings, key):
    model = copy.deepcopy(MODEL)
    model["modules"] += [{"path": f"layers.{i}", "type": "Layer"} for i in range(LAYERS)]
    old, new = manifest(model=model), manifest(model=model, **settings)
    document = diff(old, new)
    assert not document["same"] and key in document["settings"]
    assert document["settings"][key] == {
        "before": json.loads(old.read_text())[key],
        "after": json.loads(new.read_text())[key],
    }
    assert f"\n  ~ {key} " in words(old, new)
    if key == "remat":
        assert words(old, new).startswith("0 of 25 parameters differ, 1 setting differs; 3.59 KiB per rank\n")


def test_axes_are_compared_by_name_and_not_by_index(manifest):
    old = manifest({"a": "[tp, null]"}, linear_model(a=[8, 8]), mesh="{tp: 2, fsdp: 2}", more="data: {axes: [fsdp]}\n")
    new = manifest({"a": "[fsdp, null]"}, linear_model(a=[8, 8]), mesh="{fsdp: 2, tp: 2}", more="data: {axes: [tp]}\n")
    fields = diff(old, new)["parameters"]["groups"][0]["fields"]
    assert fields["spec"] == {"before": ["tp", None], "after": ["fsdp", None]}
    assert "placements" not in fields and "local_shapes" not in fields


def test_bytes_of_the_ranks_match_the_manifests(manifest):
    model = linear_model(a=[10, 8], b=[8, 8])
    old, new = (
        manifest({"a": "colwise"}, model, more="uneven: torch\n"),
        manifest({"b": "colwise"}, model, more="uneven: torch\n"),
    )
    document = diff(old, new)
    for side, path in (("before", old), ("after", new)):
        totals = json.loads(path.read_text())["totals"]
        assert document["bytes"][side] == {
            "ranks": 4,
            "min": min(totals["bytes_per_rank"]),
            "max": totals["max_bytes_per_rank"],
            "total": totals["bytes"],
            "ideal": totals["ideal_bytes_per_rank"],
            "replicated": totals["replicated_bytes_per_rank"],
        }
    assert "352 B -> 384 B per rank" in words(old, new).splitlines()[0]
    assert "  emptiest rank         288 B -> 384 B (+33.3 %)\n" in words(old, new)
    assert "local_shapes  [3, 8] x 3, [1, 8] -> [10, 8]" in words(old, new)


def test_ties_and_totals_are_a_difference(manifest, tmp_path):
    tied = linear_model(a=[8, 8], b=[8, 8])
    old = manifest({"a": "colwise", "b": "colwise"}, tied)
    new = manifest({"a": "colwise", "b": "colwise"}, tied | {"tied": [["a.weight", "b.weight"]]})
    document = diff(old, new)
    assert (
        not document["same"] and document["parameters"]["groups"] == [] and document["bytes"]["after"]["total"] == 256
    )
    assert document["settings"]["tied"] == {"before": [], "after": [["a.weight", "b.weight"]]}
    assert words(old, new).startswith("0 of 2 parameters differ")
    assert "128 B -> 64 B per rank\n" in words(old, new) and "none -> a.weight = b.weight\n" in words(old, new)


def test_output_follows_the_order_of_the_files(manifest):
    old, new = manifest(), manifest({"embed": "rowwise", "layers.*.wo": "colwise", "layers.*.wq": "replicate"})
    order = {p["path"]: i for i, p in enumerate(json.loads(new.read_text())["parameters"])}
    first = run("diff", old, new, "--format", "json").stdout
    assert first == run("diff", old, new, "--format", "json").stdout
    examples = [order[g["example"]] for g in json.loads(first)["parameters"]["groups"]]
    assert examples == sorted(examples)
    for group in json.loads(first)["parameters"]["groups"]:
        for family in group["families"]:
            assert family["paths"] == sorted(family["paths"], key=order.get)


# ---- the contract with shells ----


def test_exit_zero_and_quiet(manifest):
    old, new = manifest(), manifest({"embed": "colwise"})
    assert run("diff", old, new).returncode == 1
    assert not diff(old, new, "--exit-zero")["same"]
    summary, details = words(old, new).split("\n\n", 1)
    assert summary.startswith("18 of 25 parameters differ")
    assert run("diff", "-q", old, new).stdout.decode() == "\n" + details
    assert run("diff", "-q", old, old).stdout == b""


def test_one_side_may_be_standard_input(manifest):
    old, new = manifest(), manifest({"embed": "colwise"})
    assert run("diff", "-", new, stdin=old.read_bytes()).stdout.decode() == words(old, new)
    assert run("diff", old, "-", stdin=new.read_bytes()).stdout.decode() == words(old, new)
    assert run("diff", "-", "-", stdin=b"").returncode == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff\xfe", b'{"format": "tpplan.model/1"}'])
@pytest.mark.parametrize("bad_side", [0, 1])
def test_unreadable_file_is_named_with_exit_status_2(manifest, tmp_path, content, bad_side):
    bad = tmp_path / "bad.json"
    bad.write_bytes(content)
    sides = [manifest(), manifest()]
    sides[bad_side] = bad
    result = run("diff", *sides)
    assert result.returncode == 2 and result.stdout == b"" and b"bad.json" in result.stderr


def test_contradictory_manifest_is_not_compared(manifest, tmp_path):
    path = manifest()
    bad = edited(path, tmp_path, lambda m: m["totals"].update(bytes=1))
    result = run("diff", path, bad)
    assert result.returncode == 2 and b"TP7002" in result.stderr
    assert run("diff", path, tmp_path / "none.json").returncode == 2
    assert run("diff", path).returncode == 2
    assert run("diff", path, path, "--format", "yaml").returncode == 2


def test_hostile_names_are_escaped_in_text_and_json(manifest):
    name = "a\u202e\x1b[31m<script>\n\"'`"
    model = {
        "format": "tpplan.model/1",
        "name": name,
        "framework": "torch",
        "modules": [{"path": "m", "type": "Linear", "parameters": {name: {"shape": [8, 8], "dtype": "float32"}}}],
    }
    old = manifest(plan_text({"m." + name: "[tp, null]"}), model)
    new = manifest(plan_text({"m." + name: "[null, tp]"}), model)
    text = words(old, new)
    assert "\x1b" not in text and "\u202e" not in text and "\\x1b[31m<script>\\n" in text
    assert diff(old, new)["parameters"]["groups"][0]["example"] == "m." + name


def test_fields_of_an_edited_manifest_are_quoted(manifest, tmp_path):
    old = manifest(more="fsdp: {axis: tp}\n")

    def edit(m):
        m["fsdp"]["policy"] = m["rules"][0]["key"] = m["inputs"]["plan"]["sha256"] = 'x"\\\n\x1b'

    new = edited(old, tmp_path, edit)
    result = run("diff", old, new, "--format", "json")
    document = json.loads(result.stdout)
    assert result.returncode == 1 and document["settings"]["fsdp"]["after"]["policy"] == 'x"\\\n\x1b'
    assert "\x1b" not in words(old, new)


def test_many_layers_are_compared_in_one_pass(manifest):
    model = linear_model(**{f"l__{i}__{n}": [8, 8] for i in range(4000) for n in "ab"})
    old, new = manifest({"l.*.?": "colwise"}, model), manifest({"l.*.?": "rowwise"}, model)
    document = diff(old, new)
    assert [g["count"] for g in document["parameters"]["groups"]] == [8000]
    assert len(words(old, new)) < 3000


def test_long_text_is_bounded_and_counts_the_rest(manifest):
    """Every layer has a different shape, so that no two changes form one group; as many rules change, too."""
    names = [f"w{i}x" for i in range(400)]
    model = linear_model(**{name: [8 * (i + 1), 8] for i, name in enumerate(names)})
    old = manifest({name: "colwise" for name in names}, model)
    new = manifest({f"{name}.weight": "[null, tp]" for name in names}, model)
    text = words(old, new)
    assert len(text) < 100_000
    assert "  ~ and 300 more, in 300 groups: `--format json` lists all\n" in text
    assert re.search(r"^  and \d+ more: `--format json` lists all$", text[text.index("\nrules\n") :], re.M)
    assert len(diff(old, new)["parameters"]["groups"]) == 400


def test_families_beyond_the_limit_are_counted(manifest):
    model = linear_model(**{f"w{i}x": [8, 8] for i in range(50)})
    text = words(manifest({"w*": "colwise"}, model), manifest({"w*": "rowwise"}, model))
    parameters = text[text.index("\nparameters:") : text.index("\nmodule boundaries:")]
    assert parameters.count("  ~ w") == 20 and "    and 30 more: `--format json` lists all\n" in parameters


def test_full_text_of_a_small_difference(manifest):
    old, new = manifest(), manifest(RULES | {"layers.3.wo": "replicate"})
    assert (
        words(old, new)
        == """\
1 of 25 parameters differs, 1 of 13 module boundaries differs; 3.59 KiB -> 3.97 KiB per rank
  = note: compiled from other inputs (plan sha256), which do not count as a difference

rules
  + layers.3.wo  matches 1

parameters: 1 changed, 0 added, 0 removed
  ~ layers.3.wo.weight  (1 of 6)
      spec          [null, tp] -> [null, null]
      placements    [Shard(1)] -> [Replicate]
      local_shapes  [8, 4] -> [8, 16]
      style         rowwise -> replicate
      rule          `layers.*.wo` -> `layers.3.wo`
      replicas      1 -> 4

module boundaries: 1 changed, 0 added, 0 removed
  ~ layers.3.wo  (1 of 6)
      style         rowwise -> replicate
      rule          `layers.*.wo` -> `layers.3.wo`
      inputs        arg 0 [Shard(-1)] to [Shard(-1)] -> none
      outputs       arg 0 [Partial(sum)] to [Replicate], forward all_reduce over tp, as a local tensor
                 -> none

collectives
  - forward   all_reduce over tp  6 -> 5 (-1)

bytes
  fullest rank          3.59 KiB -> 3.97 KiB (+10.4 %)
  emptiest rank         3.59 KiB -> 3.97 KiB (+10.4 %)
  replicated            1.50 KiB -> 2.00 KiB (+33.3 %)
"""
    )


def test_saved_bytes_are_compared_if_both_manifests_list_them(tmp_path):
    folder = ROOT / "tests/golden/manifest"
    sides = [tmp_path / "whole.json", tmp_path / "again.json"]
    for case, out in zip(("saved-activations-under-tp", "saved-activations-with-remat"), sides):
        assert (
            run("compile", folder / case / "model.json", folder / case / "plan.yaml", "-q", "-o", out).returncode == 0
        )
    result = run("diff", *sides, "--format", "json")
    found = json.loads(result.stdout)
    VALIDATOR.validate(found)
    assert found["settings"]["costs"] == {
        "before": json.loads(sides[0].read_text())["costs"],
        "after": json.loads(sides[1].read_text())["costs"],
    }
    text = run("diff", *sides).stdout.decode()
    assert re.search(r"costs .*2.25 KiB saved for backward.*\n *-> 256 B saved for backward", text), text
    assert run("diff", sides[0], sides[0]).returncode == 0
