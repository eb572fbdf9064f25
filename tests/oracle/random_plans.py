"""Random models and plans by seed: about half of the plans are correct. Most of the others have one deliberate error,
and some are drawn without constraints. judge_plan.py decides if a plan is correct.
"""

import json
import math
import re

SIZES = [1, 2, 3, 4]
NICE = [24, 48, 72]
ROUGH = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 16, 18, 24, 30, 36]
DTYPES = ["float32", "bfloat16", "float16", "float64", "int8"]
AXES = ["tp", "dp", "ep", "x"]


# --- models -----------------------------------------------------------------------------------------------------------


def tensor(draw, shape, **more):
    return {"shape": shape, "dtype": draw.choice(DTYPES)} | more


def linear(draw, sizes, framework, segments):
    """A linear module with its framework's weight, or a subclass that declares its kind."""
    out, into = draw.choice(sizes), draw.choice(sizes)
    parameters = {}
    if framework == "keras":
        module = {"type": "Dense"}
        parameters["kernel"] = tensor(draw, [into, out])
    else:
        module = draw.choice(
            [{"type": "Linear"}, {"type": "Linear"}, {"type": "Mine", "kind": "linear"}, {"type": "Conv1D"}]
        )
        shape = [into, out] if module["type"] == "Conv1D" else [out, into]
        parameters["weight"] = tensor(draw, shape)
    weight = next(iter(parameters.values()))
    if segments and out % 4 == 0 and draw.random() < 0.5:
        weight["segments"] = {"out": draw.choice([[out // 2, out // 2], [out // 2, out // 4, out // 4]])}
    elif draw.random() < 0.15:
        dim = draw.choice(["out", "in"])
        weight["granularity"] = {dim: draw.choice([1, 2, 3, 4])}
    if draw.random() < 0.5:
        parameters["bias"] = tensor(draw, [out])
    return module | {"parameters": parameters}


def norm(draw, sizes, framework):
    size = draw.choice(sizes)
    if framework == "keras":
        return {
            "type": "LayerNormalization",
            "parameters": {"gamma": tensor(draw, [size]), "beta": tensor(draw, [size])},
        }
    kind = draw.choice([{"type": "RMSNorm"}, {"type": "LayerNorm"}, {"type": "MyNorm", "kind": "norm"}])
    names = ["weight", "bias"] if draw.random() < 0.3 else ["weight"]
    return kind | {"parameters": {name: tensor(draw, [size]) for name in names}}


def other(draw, sizes):
    """A module of an unknown type: experts with named dims, a bare tensor, a scalar."""
    what = draw.random()
    if what < 0.4:
        shape = [draw.choice(sizes) for _ in range(3)]
        dims = draw.choice([["expert", "out", "in"], ["expert", "in", "out"]])
        return {"type": "Experts", "kind": "experts", "parameters": {"gate": tensor(draw, shape, dims=dims)}}
    if what < 0.7:
        return {
            "type": "Gate",
            "parameters": {"weight": tensor(draw, [draw.choice(sizes), draw.choice(sizes)], dims=["out", "in"])},
        }
    if what < 0.9:
        return {
            "type": "Router",
            "parameters": {"table": tensor(draw, [draw.choice(sizes) for _ in range(draw.randint(1, 3))])},
        }
    return {"type": "Scale", "parameters": {"scale": tensor(draw, [])}}


def draw_model(draw, rough):
    framework = "keras" if draw.random() < 0.2 else "torch"
    sizes = ROUGH if rough else NICE
    between = "/" if framework == "keras" else "."
    modules = [{"path": "", "type": "Model"}]
    if draw.random() < 0.2:
        modules[0]["parameters"] = {"scale": tensor(draw, [draw.choice(sizes)])}
    tied = []
    if framework == "torch" and draw.random() < 0.6:
        shape, dtype = [draw.choice(sizes), draw.choice(sizes)], draw.choice(DTYPES)
        ends = [("embed", "Embedding")]
        ends += [("head", "Linear")] if draw.random() < 0.7 else []
        ends += [("shared", "Linear")] if len(ends) == 2 and draw.random() < 0.3 else []
        for path, kind in ends:
            modules.append(
                {"path": path, "type": kind, "parameters": {"weight": {"shape": list(shape), "dtype": dtype}}}
            )
        if len(ends) > 1 and draw.random() < 0.7:
            names = [f"{path}.weight" for path, _ in ends]
            draw.shuffle(names)
            tied = [names]
    segments = draw.random() < 0.3
    for layer in range(draw.randint(1, 2)):
        place = f"layers{between}{layer}"
        if draw.random() < 0.5:  # a container exists even if it is not listed
            modules.append({"path": place, "type": "Block"})
        for name in draw.sample(["attn.q", "attn.o", "mlp.up", "mlp.down", "norm", "norm2", "moe"], draw.randint(1, 4)):
            made = (
                norm(draw, sizes, framework)
                if "norm" in name
                else other(draw, sizes)
                if name == "moe"
                else linear(draw, sizes, framework, segments)
            )
            modules.append({"path": place + between + name.replace(".", between)} | made)
    if draw.random() < 0.3:
        draw.shuffle(modules)
    return {"format": "tpplan.model/1", "name": "Drawn", "framework": framework, "modules": modules} | (
        {"tied": tied} if tied else {}
    )


# --- plans ------------------------------------------------------------------------------------------------------------


def draw_mesh(draw, rough):
    """An axis for styles and up to two more, in any order."""
    names = draw.sample(AXES, draw.choice([1, 1, 2, 2, 2, 3]))
    if "tp" not in names and draw.random() < 0.7:
        names[draw.randrange(len(names))] = "tp"
    mesh = {name: draw.choice(SIZES + [5, 6] if rough else SIZES) for name in names}
    while math.prod(mesh.values()) > 24 or (not rough and 24 % math.prod(mesh.values())):
        mesh[draw.choice(names)] = draw.choice(SIZES)
    return mesh


def key_of(draw, path, between, dialect):
    """A key that matches this path, exactly or as a pattern that may match more."""
    names = path.split(between)
    if dialect == "regex":
        literal, many = re.escape(path), [re.escape(name) for name in names]
        ways = [literal, ".*" + re.escape(names[-1]), re.sub(r"\d+", r"\\d+", literal), "(.*[./])?" + many[-1]]
        ways += [re.sub(r"\d+", "[0-9]", literal), literal[:-1] + "[a-z0-9]" if path[-1:].isalpha() else literal]
        return draw.choice(ways)
    ways = [path, path, re.sub(r"\d+", "*", path), re.sub(r"\d", "?", path), re.sub(r"\d+", "[0-9]", path)]
    ways += ["*" + between + names[-1], "*" + names[-1], between.join(names[:-1] + ["*"]) or "*"]
    if len(names) > 1:
        ways += ["*" + between.join(names[-2:]), between.join(names[:-2] + ["[!x]*", names[-1]])]
    return draw.choice(ways)


def draw_spec(draw, mesh, count, care):
    """A spec with this many dims. Without care, an axis may occur twice."""
    axes = list(mesh)
    draw.shuffle(axes)
    spec = [None] * count
    for axis in axes[: draw.randint(0, len(axes))]:
        if count:
            dim = draw.randrange(count)
            spec[dim] = (
                axis if spec[dim] is None else [*(spec[dim] if isinstance(spec[dim], list) else [spec[dim]]), axis]
            )
    if not care and count > 1 and draw.random() < 0.1:
        spec[0] = spec[1] = axes[0]
    if count > 1 and draw.random() < 0.2:
        whole = [dim for dim in range(count) if spec[dim] is None]
        if whole:
            spec[draw.choice(whole)] = "..."
    elif draw.random() < 0.03:
        spec = ["...", *spec[1:]] if spec and spec[0] is None else [*spec, "..."]
    if draw.random() < 0.1:
        spec = [[entry] if isinstance(entry, str) and entry != "..." else entry for entry in spec]
    return spec


STYLES = {
    "linear": ["colwise", "rowwise", "colwise", "rowwise", "replicate", "colwise_gather_output", "rowwise_split_input"],
    "embedding": ["embedding_rowwise", "embedding_colwise", "replicate", "colwise", "rowwise"],
    "norm": ["sequence_parallel", "replicate", "replicated_with_grad_allreduce"],
    "other": ["replicate", "colwise", "rowwise"],
}


def guess_kind(module):
    name = module.get("kind", module["type"]).lower()
    return next(
        (
            kind
            for kind, words in {
                "embedding": ["embedding"],
                "norm": ["norm"],
                "linear": ["linear", "dense", "conv"],
            }.items()
            if any(word in name for word in words)
        ),
        "other",
    )


def draw_treatment(draw, module, name, mesh, plan, care):
    """The treatment of a module (name None) or of one of its parameters."""
    shapes = [len(one["shape"]) for key, one in module["parameters"].items() if name in (None, key)]
    default = plan.get("axis", "tp")
    axis = default if default in mesh and draw.random() < 0.8 else draw.choice(list(mesh))
    if axis in plan["data"] or draw.random() < 0.4:
        spec = draw_spec(draw, mesh, draw.choice(shapes), care)
        more = {"optional": draw.random() < 0.5} if draw.random() < 0.1 else {}
        more |= {"contiguous": True} if draw.random() < 0.1 else {}
        return {"spec": spec} | more if more or draw.random() < 0.3 else spec
    style = draw.choice(STYLES[guess_kind(module)] if care or draw.random() < 0.8 else sum(STYLES.values(), []))
    more = {} if axis == default else {"axis": axis}
    more |= {"optional": True} if draw.random() < 0.1 else {}
    return {"style": style} | more if more or draw.random() < 0.2 else style


def draw_plan(draw, model, rough, care):
    mesh = draw_mesh(draw, rough)
    between = "/" if model["framework"] == "keras" else "."
    plan = {"dialect": draw.choice(["glob", "glob", "regex"]), "mesh": mesh, "data": []}
    if "tp" not in mesh or draw.random() < 0.1:
        plan["axis"] = draw.choice(list(mesh))
    if draw.random() < (0.6 if rough else 0.1):
        plan["uneven"] = "torch"
    elif draw.random() < 0.1:
        plan["uneven"] = "error"
    if len(mesh) > 1 and draw.random() < 0.3:
        plan["data"] = [draw.choice([axis for axis in mesh if axis != plan.get("axis", "tp")])]
    rules, blocks = {}, {}
    owners = [module for module in model["modules"] if module.get("parameters")]
    for module in draw.sample(owners, min(len(owners), draw.randint(1, 5))):
        name = draw.choice([None, None, *module["parameters"]])
        path = between.join(part for part in (module["path"], name) if part)
        if not path:
            continue
        treatment = draw_treatment(draw, module, name, mesh, plan, care)
        if plan["dialect"] == "glob" and path.startswith("layers") and draw.random() < 0.3:
            pattern = f"layers{between}" + draw.choice(["*", "?", "[0-9]", path.split(between)[1]])
            key = between.join(path.split(between)[2:])
            blocks.setdefault(pattern, {})[key_of(draw, key, between, "glob")] = treatment
            if (
                draw.random() < 0.1 and between in key
            ):  # matches nothing, unless a block begins further inside, at a second match
                rule = {"spec": ["..."], "optional": True}
                blocks[pattern].setdefault(key.split(between, 1)[1], rule)
        else:
            rules[key_of(draw, path, between, plan["dialect"])] = treatment
    if draw.random() < 0.15:
        rules["nothing.of.the.kind"] = {"style": "replicate", "optional": True, "axis": next(iter(mesh))}
        if next(iter(mesh)) in plan["data"]:
            del rules["nothing.of.the.kind"]
    plan["rules"], plan["blocks"] = (
        list(rules.items()),
        [(pattern, list(inner.items())) for pattern, inner in blocks.items()],
    )
    return plan


# --- faults -----------------------------------------------------------------------------------------------------------


def add(model, plan, shape, treatment, **more):
    """Adds a module with a separate rule. In regex no key is exact, so other matching rules may conflict."""
    between = "/" if model["framework"] == "keras" else "."
    path = "zz" + between + "added"
    module = {"type": "Gate", "parameters": {"w": {"shape": shape, "dtype": "float32"} | more.pop("tensor", {})}} | more
    model["modules"].append({"path": path} | module)
    key = path + between + "w"
    plan["rules"].append((re.escape(key) if plan["dialect"] == "regex" else key, treatment))


def first(plan):
    return next(iter(plan["mesh"]))


def free_axis(plan):
    return next((axis for axis in plan["mesh"] if axis not in plan["data"]), None)


def fault_unknown_axis(draw, model, plan):
    add(
        model,
        plan,
        [24, 24],
        draw.choice([["nowhere", None], [[first(plan), "nowhere"], None], {"style": "replicate", "axis": "nowhere"}]),
    )
    return "TP3006"


def fault_default_axis(draw, model, plan):
    if "tp" in plan["mesh"]:
        return None
    plan.pop("axis", None)
    add(model, plan, [24, 24], draw.choice(["sequence_parallel", "colwise", {"style": "rowwise", "optional": True}]))
    return "TP3006"


def fault_data_axis(draw, model, plan):
    axis = plan.get("axis", "tp")
    if axis not in plan["mesh"]:
        return None
    plan["data"] = [axis]
    add(model, plan, [24, 24], "sequence_parallel")
    return "TP3020"


def fault_unknown_data_axis(draw, model, plan):
    plan["data"] = [*plan["data"], "nowhere"]
    return "TP3006"


def fault_twice(draw, model, plan):
    axis = first(plan)
    add(
        model,
        plan,
        [24, 24, 24],
        draw.choice([[axis, axis, None], [[axis, axis], None, None], [axis, None, [axis]], [axis, "...", axis]]),
    )
    return "TP5004"


def fault_dims(draw, model, plan):
    axis = first(plan)
    shape = draw.choice([[24], [24, 24], [24, 24, 24]])
    count = draw.choice([n for n in (0, 1, 2, 3, 4) if n != len(shape)])
    spec = [axis if n == 0 else None for n in range(count)]
    if count > len(shape):
        spec = draw.choice([spec, [*spec, "..."]])
    add(model, plan, shape, spec)
    return "TP5002"


def fault_does_not_divide(draw, model, plan):
    axes = [axis for axis, size in plan["mesh"].items() if size > 1]
    if not axes:
        return None
    plan["uneven"] = "error"
    axis = draw.choice(axes)
    size = draw.choice([n for n in range(1, 31) if n % plan["mesh"][axis]])
    more = [other for other in plan["mesh"] if other != axis and size % plan["mesh"][other] == 0]
    pairs = [pair for other in more if plan["mesh"][other] > 1 for pair in ([axis, other], [other, axis])]
    dim = draw.choice(pairs or [axis, [axis]])
    add(model, plan, [24, size], [None, dim])
    return "TP5001"


def fault_product(draw, model, plan):
    mesh = plan["mesh"]
    pairs = [(a, b) for a in mesh for b in mesh if a != b and math.gcd(mesh[a], mesh[b]) > 1]
    if not pairs:
        return None
    plan["uneven"] = "error"
    pair = draw.choice(pairs)
    size = math.lcm(mesh[pair[0]], mesh[pair[1]])
    add(model, plan, [size, 24], [list(pair), None])
    return "TP5003"


def fault_matches_nothing(draw, model, plan):
    treatment = draw.choice([[first(plan)], {"spec": [None], "optional": False}])
    plan["rules"].insert(
        draw.randint(0, len(plan["rules"])), (draw.choice(["nowhere", "layers.*.nowhere", "[q]owhere"]), treatment)
    )
    return "TP4001"


def fault_part_of_a_path(draw, model, plan):
    add(model, plan, [24], [None])
    if plan["dialect"] == "regex":
        plan["rules"].append((draw.choice(["zz.adde", "z.added.w"]), [None]))
    else:
        plan["rules"].append((draw.choice(["added", "zz.adde", "z*d.", "?.added.w", "zz.[!a]dded"]), [None]))
    return "TP4001"


def fault_disagree(draw, model, plan):
    add(model, plan, [24, 24], [first(plan), None])
    key = r"zz.add[e]d.." if plan["dialect"] == "regex" else "zz?add[a-f]d?w"
    again = draw.choice([[None, first(plan)], [None, None], {"style": "replicate", "axis": first(plan)}])
    if isinstance(again, dict) and first(plan) in plan["data"]:
        again = [None, None]
    if plan["dialect"] == "glob":
        plan["rules"][-1] = ("zz?added?w", plan["rules"][-1][1])
    plan["rules"].insert(draw.randint(0, len(plan["rules"])), (key, again))
    return "TP4003"


def fault_style(draw, model, plan):
    add(
        model,
        plan,
        [24, 24],
        draw.choice(["columnwise", {"style": "Colwise"}, {"style": "row_wise", "optional": True}]),
    )
    return "TP3005"


def fault_norm(draw, model, plan):
    axis = free_axis(plan)
    if axis is None:
        return None
    add(model, plan, [24], {"style": draw.choice(["colwise", "rowwise"]), "axis": axis}, kind="norm")
    return "TP5009"


def fault_unknown_dims(draw, model, plan):
    axis = free_axis(plan)
    if axis is None:
        return None
    add(model, plan, [24, 24], {"style": draw.choice(["colwise", "rowwise"]), "axis": axis})
    return "TP5010"


def fault_tie(draw, model, plan):
    axes = [axis for axis, size in plan["mesh"].items() if size > 1 and 24 % size == 0]
    if not axes or model.get("tied"):
        return None
    axis = draw.choice(axes)
    add(model, plan, [24, 24], [axis, None])
    between = "/" if model["framework"] == "keras" else "."
    module = {"path": "zz2", "type": "Gate", "parameters": {"w": {"shape": [24, 24], "dtype": "float32"}}}
    model["modules"].insert(draw.randint(0, len(model["modules"])), module)
    model["tied"] = [[f"zz{between}added{between}w", f"zz2{between}w"]]
    key = f"zz2{between}w"
    plan["rules"].append(
        (re.escape(key) if plan["dialect"] == "regex" else key, draw.choice([[None, axis], [None, None]]))
    )
    return "TP5011"


def fault_granularity(draw, model, plan):
    axes = [axis for axis, size in plan["mesh"].items() if size > 1]
    if not axes:
        return None
    axis = draw.choice(axes)
    size = plan["mesh"][axis]
    add(model, plan, [24, size * 3], [None, axis], tensor={"dims": ["out", "in"], "granularity": {"in": 2}})
    return "TP5006"


def fault_segment(draw, model, plan):
    axes = [axis for axis, size in plan["mesh"].items() if size > 1]
    if not axes:
        return None
    plan["uneven"] = "error"
    axis = draw.choice(axes)
    size = plan["mesh"][axis]
    add(
        model,
        plan,
        [2 * size, 24],
        [axis, None],
        tensor={"dims": ["out", "in"], "segments": {"out": [2 * size - 1, 1]}},
    )
    return "TP5005"


def fault_block(draw, model, plan):
    if plan["dialect"] == "regex":
        return None
    plan["blocks"].append((draw.choice(["blocks.*", "block?", "nowhere"]), [("w", [None])]))
    return "TP4009"


def fault_expression(draw, model, plan):
    plan["dialect"] = "regex"
    plan["rules"] = [(draw.choice(["a(b", "a[", "*a", r"(?P<n", "a{2,1}"]), [None])]
    plan["blocks"] = []
    return "TP3012"


def fault_size(draw, model, plan):
    plan["mesh"][draw.choice(list(plan["mesh"]))] = draw.choice([0, -1, -8])
    return "TP3009"


def fault_word(draw, model, plan):
    key, value = draw.choice([("dialect", "fnmatch"), ("dialect", "Glob"), ("uneven", "jax"), ("uneven", "pad")])
    plan[key] = value
    if key == "dialect":
        plan["rules"], plan["blocks"] = [("a", [None])], []
    return "TP3013"


def fault_plan_key(draw, model, plan):
    plan[draw.choice(["rulez", "tpplan", "unevenn"])] = "error"
    return "TP3004"


def fault_option(draw, model, plan):
    axis = free_axis(plan)
    if axis is None:
        return None
    ways = [{"spec": [None, None], "axis": axis}, {"style": "replicate", "axis": axis, "contiguous": True}]
    ways += [{"style": "replicate", "axis": axis, "use_local_output": True}]
    add(model, plan, [24, 24], draw.choice(ways))
    return "TP3008"


def fault_entry(draw, model, plan):
    add(model, plan, [24, 24], draw.choice([["...", "..."], ["...", first(plan), "..."]]))
    return "TP3007"


def fault_number(draw, model, plan):
    add(model, plan, [24, 24], draw.choice([[0, None], [[first(plan), 1], None], [None, [0]]]))
    return "TP3006"


def fault_empty(draw, model, plan):
    plan["rules"], plan["blocks"] = [], []
    return "TP3010"


def fault_optional(draw, model, plan):
    add(model, plan, [24, 24], {"spec": [None, None], "optional": draw.choice(["yes", 1, "true"])})
    return "TP3003"


def fault_mesh(draw, model, plan):
    del plan["mesh"]
    return "TP3002"


FAULTS = [made for name, made in sorted(globals().items()) if name.startswith("fault_")]


# --- pairs ------------------------------------------------------------------------------------------------------------


def draw_pair(draw, right, fault=None):
    """Returns a model, a plan, and the code of the deliberate error: None for plans that should be correct, "?" for
    unconstrained ones. `right(model, plan)` tests if a pair is correct; `fault` selects the error.
    """
    what = draw.random() if fault is None else 0.5
    while True:
        rough = draw.random() < 0.3
        model = draw_model(draw, rough)
        plan = draw_plan(draw, model, rough, care=what < 0.85)
        if what >= 0.85:
            return model, plan, "?"
        if not right(model, plan):
            continue
        if what < 0.5:
            return model, plan, None
        code = (fault or draw.choice(FAULTS))(draw, model, plan)
        if code:
            return model, plan, code


# --- as text ----------------------------------------------------------------------------------------------------------


def text(value):
    """Returns a value in YAML's flow style, with unquoted words if possible."""
    if isinstance(value, list):
        return "[" + ", ".join(text(entry) for entry in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {text(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, str) and (
        value == "..." or (re.fullmatch("[A-Za-z_]+", value) and value not in ("yes", "true"))
    ):
        return value
    return json.dumps(value)


def plan_text(plan):
    """Returns the text of the plan file."""
    lines = ["format: tpplan.plan/1"]
    for key, value in plan.items():
        if key == "data":
            lines += [f"data: {{axes: {text(value)}}}"] if value else []
        elif key == "rules":
            lines += ["tp_plan:" if value else "tp_plan: {}"] + [
                f"  {json.dumps(name)}: {text(rule)}" for name, rule in value
            ]
        elif key == "blocks":
            lines += ["blocks:"] if value else []
            for pattern, rules in value:
                lines += [f"  {json.dumps(pattern)}:"] + [
                    f"    {json.dumps(name)}: {text(rule)}" for name, rule in rules
                ]
        else:
            lines.append(f"{key}: {text(value)}")
    return "\n".join(lines) + "\n"
