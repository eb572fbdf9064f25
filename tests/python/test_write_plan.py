"""The program reads plans written by Python as intended: keys, names and values of every kind."""

import json
import random
import re

import bridge
from tpplan import write_plan as writer
from tpplan.write_plan import _name, _value, write_plan, write_plan_file

TEXTS = [
    "layers.*.wq",
    "*",
    "a",
    "null",
    "~",
    "true",
    "No",
    "y",
    "8",
    "0x10",
    "1e5",
    ".inf",
    "...",
    "---",
    "- a",
    "a: b",
    "a #b",
    "#",
    "&a",
    "!t",
    "{a}",
    "[a, b]",
    "'",
    '"',
    "\\",
    r"\d+(\.|$)",
    "\x7f",
    "\x01",
    " a ",
    "?",
    ":",
    "|",
    ">",
    "%TAG",
    "@",
    "`",
    "é",
    "模型",
    "🐟",
    "<<",
    "None",
]
LAYOUTS = ["Replicate", "Shard(0)", "Shard(-1)", "Partial", "Partial(avg)", None]
TARGETS = ["Replicate", "Shard(2)", None]


def any_text(chance, used):
    text = chance.choice(TEXTS)
    while text in used or chance.random() < 0.3:
        text += chance.choice(TEXTS)
    used.add(text)
    return text


def shown(layout):
    return {None: "null", "Partial": "Partial(sum)"}.get(layout, layout)


def listed(layouts):
    return "[" + ", ".join(map(shown, layouts)) + "]"


def axes_of(entry):
    """An entry of a spec as written in a plan, and as `--print plan` shows it."""
    if not entry:
        return "null"
    names = [entry] if isinstance(entry, str) else entry
    texts = [
        name
        if _value(name) == f'"{name}"' and _name(name) == name
        else json.dumps(name, ensure_ascii=False).replace("\\u0001", "\\x01")
        for name in names
    ]
    return texts[0] if len(texts) == 1 and names[0] != "..." else f"[{', '.join(texts)}]"


def any_rule(chance, axes, default):
    """A rule, and its `--print plan` output."""
    kind = chance.choice(["style", "spec", "colwise", "prepare"])
    if kind == "spec":
        spec = [
            chance.choice([None, chance.choice(axes), [chance.choice(axes), chance.choice(axes)]])
            for _ in range(chance.randrange(4))
        ]
        spec = [["..."] if entry == "..." else entry for entry in spec]  # an axis of that name, not an ellipsis
        at = chance.choice([None, chance.randrange(len(spec) + 1)])
        parts = list(map(axes_of, spec))
        if at is not None:
            parts.insert(at, "...")
            spec.insert(at, "...")
        return {"spec": spec}, f"[{', '.join(parts)}]"
    if kind == "style":
        return "sequence_parallel", f"sequence_parallel over {default}"
    axis = chance.choice(axes)
    if kind == "colwise":
        layout, local = chance.choice(LAYOUTS[:5]), chance.random() < 0.5
        return (
            {"style": "colwise", "input_layouts": layout, "use_local_output": local, "axis": axis, "optional": True},
            f"colwise over {axis} optional input_layouts={listed([layout])} use_local_output={str(local).lower()}",
        )
    source, target = [chance.choice(LAYOUTS) for _ in range(3)], [chance.choice(TARGETS) for _ in range(3)]
    names = [any_text(chance, set())]
    kwargs, wanted = {n: chance.choice(LAYOUTS) for n in names}, {n: chance.choice(TARGETS) for n in names}
    return (
        {
            "style": "prepare_module_input",
            "input_layouts": source,
            "desired_input_layouts": target,
            "input_kwarg_layouts": kwargs,
            "desired_input_kwarg_layouts": wanted,
            "axis": axis,
        },
        f"prepare_module_input over {axis} input_layouts={listed(source)} desired_input_layouts={listed(target)}"
        + "".join(
            f" {name}={{{', '.join(f'{k}: {shown(v)}' for k, v in of.items())}}}"
            for name, of in (("input_kwarg_layouts", kwargs), ("desired_input_kwarg_layouts", wanted))
        ),
    )


def test_written_plans_are_read_unchanged(tmp_path):
    chance = random.Random(1)
    model = {"format": "tpplan.model/1", "name": "Model", "framework": "torch", "modules": []}
    for case in range(40):
        used, names = set(), set()
        axes = ["tp"] * chance.randrange(2) + [any_text(chance, names) for _ in range(1 + chance.randrange(3))]
        axes = [a for a in axes if a != "None"] or ["x"]
        default = "tp" if "tp" in axes else axes[-1]
        batch = any_text(chance, names)  # data parallel only: styles do not use this axis
        mesh = {axis: 1 + chance.randrange(8) for axis in [batch, *axes]}
        dialect, match = chance.choice([("glob", None), ("regex", None), ("keras", "search")])
        uneven = chance.choice(["error", "torch"])
        data = chance.choice([None, {"axes": [batch], "dim": 1}])
        rules, lines = {}, []
        for _ in range(30):
            key = any_text(chance, used) if chance.random() < 0.95 else "x" * 1100 + any_text(chance, used)
            rules[key], text = any_rule(chance, axes, default)
            lines.append(f"rule {key}: {text}")
        if data:
            lines.append(f"data {batch} dim 1")
        head = [f"dialect {dialect}", f"mesh [{', '.join(f'{a}={n}' for a, n in mesh.items())}]", f"uneven {uneven}"]
        paths = bridge.write(
            tmp_path, model, write_plan(dialect, mesh, rules, uneven=uneven, keras_match=match, data=data)
        )
        result = bridge.run("compile", *paths, "--print", "plan", "--color", "never")
        assert result.returncode == 0, (case, result.stderr.decode(), paths[1].read_text())
        visible = re.sub(r"[\x01\x7f]", lambda c: f"\\x{ord(c[0]):02x}", "\n".join([*head, *lines]))  # as printed
        assert result.stdout.decode().splitlines() == visible.splitlines(), case


def test_plan_file_references_a_schema_next_to_it(tmp_path, monkeypatch):
    text = write_plan("glob", {"tp": 2}, {"a": "colwise"})
    plan, schema = tmp_path / "plan.yaml", tmp_path / "plan.schema.json"
    write_plan_file(str(plan), text)
    assert plan.read_text() == "# yaml-language-server: $schema=plan.schema.json\n" + text
    assert schema.read_bytes() == bridge.run("schema", "plan").stdout
    schema.write_text("mine")
    write_plan_file(str(plan), text)
    assert schema.read_text() == "mine" and plan.read_text().endswith(text)
    schema.unlink()
    monkeypatch.setattr(writer, "find_program", lambda: str(tmp_path / "absent"))
    write_plan_file(str(plan), text)
    assert plan.read_text() == text and not schema.exists(), "without the program there is no schema to name"


def test_plan_on_stdout_references_no_schema(capsys):
    text = write_plan("glob", {"tp": 2}, {"a": "colwise"})
    write_plan_file(None, text)
    write_plan_file("/dev/null", text)
    assert capsys.readouterr().out == text


def test_plan_without_rules_has_an_empty_tp_plan():
    assert write_plan("glob", {"tp": 2}, {}).endswith("tp_plan: {}\n")
    assert not re.search("axis|uneven|data|keras_match", write_plan("glob", {"tp": 2}, {"a": "colwise"}))
