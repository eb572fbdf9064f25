"""Small random models of stacked layers, and random plans for them: most layers are identical, some differ in one
respect.
"""

import json

SIZES = [2, 8, 8]  # batch, sequence, width: the last two may be swapped
LAYERS = range(7, 15)


def begin(name):
    return {"name": name, "modules": [], "strings": [], "shapes": [], "sizes": [], "values": [], "leaves": [], "nodes": [],
            "leaf_of": {}}  # fmt: skip


def number(table, item):
    if item not in table:
        table.append(item)
    return table.index(item)


def text(g, string):
    return number(g["strings"], string)


def value(g, shape, dtype="float32", grad=True):
    g["values"].append([number(g["shapes"], list(shape)), text(g, dtype), int(grad)])
    return len(g["values"]) - 1


def shape_of(g, id):
    return g["shapes"][g["values"][id][0]]


def dtype_of(g, id):
    return g["strings"][g["values"][id][1]]


def needs_grad(g, id):
    return bool(g["values"][id][2])


def module(g, path, kind):
    for m in g["modules"]:
        if m["path"] == path:
            return m
    g["modules"].append({"path": path, "type": kind, "parameters": {}, "buffers": {}})
    return g["modules"][-1]


def leaf(g, path, name, shape, kind="param", dtype="float32", owner="Linear"):
    """Returns the value of a parameter or buffer, which is added to the graph at its first use."""
    full = f"{path}.{name}" if path else name
    if full not in g["leaf_of"]:
        module(g, path, owner)["buffers" if kind == "buffer" else "parameters"][name] = {
            "shape": list(shape),
            "dtype": dtype,
        }
        id = value(g, shape, dtype, kind == "param")
        g["leaves"].append([id, kind, text(g, full)])
        g["leaf_of"][full] = id
    return g["leaf_of"][full]


def given(g, name, shape, dtype="float32"):
    id = value(g, shape, dtype, False)
    g["leaves"].append([id, "input", text(g, name)])
    return id


def values_in(args):
    lists = [a for a in args if isinstance(a, list)]
    return [i for a in lists for i in (a if len(a) == 1 else values_in(a))]


def op(g, name, args, *shapes, grad=None, dtype=None, **keywords):
    """Adds an operation and returns its result or results; a value in `args` is [id]."""
    ids = values_in(args)
    grad = any(needs_grad(g, i) for i in ids) if grad is None else grad
    outs = [value(g, s, dtype or dtype_of(g, ids[0]), grad) for s in shapes]
    flat = [part for key, word in keywords.items() for part in (text(g, key), word)]
    g["nodes"].append([text(g, name), args, flat, outs])
    return outs[0] if len(outs) == 1 else outs


def enter(g, path, kind, *ids):
    module(g, path, kind)
    inner = [value(g, shape_of(g, i), dtype_of(g, i), needs_grad(g, i)) for i in ids]
    g["nodes"].append([0, text(g, path), len(ids), 0, [[[n], a, b] for n, (a, b) in enumerate(zip(ids, inner))]])
    return inner


def leave(g, path, *ids):
    outer = [value(g, shape_of(g, i), dtype_of(g, i), needs_grad(g, i)) for i in ids]
    places = [[]] if len(ids) == 1 else [[n] for n in range(len(ids))]
    g["nodes"].append([1, text(g, path), [[p, a, b] for p, a, b in zip(places, ids, outer)]])
    return outer


def linear(g, path, x, width, bias=False, dtype="float32"):
    (x,) = enter(g, path, "Linear", x)
    args = [[x], [leaf(g, path, "weight", [width, shape_of(g, x)[-1]], dtype=dtype)]]
    if bias:
        args.append([leaf(g, path, "bias", [width])])
    return leave(g, path, op(g, "linear", args, [*shape_of(g, x)[:-1], width]))[0]


# Parts of a layer. Each reads and replaces values in `c`: x (the stream), and others that layers pass on. `odd` lists
# the respects in which this layer differs.


def mlp(g, path, c, odd):
    h = linear(g, f"{path}.up", c["x"], 16, bias="bias" in odd)
    h = op(g, "gelu" if "name" in odd else "relu", [[h]], shape_of(g, h))
    h = linear(g, f"{path}.down", h, 8)
    c["x"] = op(g, "add", [[c["x"]], [h]], SIZES) if "residual" not in odd else h


def gated_mlp(g, path, c, odd):
    """An MLP with a trainable scalar that scales sharded values: its gradient is never reduced."""
    h = linear(g, f"{path}.up", c["x"], 16)
    kind = "buffer" if "leaf" in odd else "param"
    h = op(g, "mul", [[h], [leaf(g, path, "gate", [1], kind, owner="Layer")]], shape_of(g, h))
    h = linear(g, f"{path}.down", h, 8, bias="bias" in odd)
    c["x"] = op(g, "add", [[c["x"]], [h]], SIZES) if "residual" not in odd else h


def norm(g, path, c, odd):
    (x,) = enter(g, f"{path}.norm", "RMSNorm", c["x"])
    kind = "buffer" if "leaf" in odd else "param"
    weight = leaf(g, f"{path}.norm", "weight", [8], kind, owner="RMSNorm")
    (c["x"],) = leave(g, f"{path}.norm", op(g, "rms_norm", [[x], ["t", 8], [weight]], SIZES))


def scale(g, path, c, odd):
    c["x"] = op(g, "mul", [[c["x"]], [leaf(g, path, "scale", [1] if "shape" in odd else [8], owner="Layer")]], SIZES)


def scale_by_number(g, path, c, odd):
    c["x"] = op(g, "mul", [[c["x"]], 3.0 if "literal" in odd else 2.0], SIZES)


def turn(g, path, c, odd):
    if "literal" in odd:
        return
    c["x"] = op(g, "transpose", [[c["x"]], 1, 2], SIZES)


def scale_by_shared(g, path, c, odd):
    c["x"] = op(g, "mul", [[c["x"]], [c["own" if "shared" in odd else "shared"]]], SIZES)


def mask(g, path, c, odd):
    c["x"] = op(g, "mul", [[c["x"]], [c["mask"]]], SIZES)


def add_in_place(g, path, c, odd):
    c["x"] = op(g, "relu" if "in_place" in odd else "relu_", [[c["x"]]], SIZES)


def halves(g, path, c, odd):
    dim = 1 if "literal" in odd else 2
    half = [2, 8, 4] if dim == 2 else [2, 4, 8]
    a, b = op(g, "chunk", [[c["x"]], 2, dim], half, half)
    b = op(g, "relu", [[b]], half)
    c["x"] = op(g, "cat", [["t", [a], [b]], dim], SIZES)


def branch(g, path, c, odd):
    """One half goes through a linear, the other does not."""
    a, b = op(g, "chunk", [[c["x"]], 2, 2], [2, 8, 4], [2, 8, 4])
    a = linear(g, f"{path}.half", a, 4)
    c["x"] = op(g, "cat", [["t", [a], [b]], 2], SIZES)


def hand_on(g, path, c, odd):
    """The layer's input is passed unchanged to the next but one layer."""
    c["older"], c["old"] = c["old"], c["x"]


def add_older(g, path, c, odd):
    c["x"] = op(g, "add", [[c["x"]], [c["old" if "older" in odd else "older"]]], SIZES)


def add_old(g, path, c, odd):
    c["x"] = op(g, "add", [[c["x"]], [c["old"]]], SIZES)


def no_grad(g, path, c, odd):
    if "detach" in odd:
        c["x"] = op(g, "detach", [[c["x"]]], SIZES, grad=False)


def cast(g, path, c, odd):
    to = "bfloat16" if ("type" in odd) != (dtype_of(g, c["x"]) == "bfloat16") else "float32"
    c["x"] = op(g, "to", [[c["x"]], ["d", to]], SIZES, dtype=to)


def keep_side(g, path, c, odd):
    """A second value next to the stream, recomputed by each layer and used by the next."""
    side = op(g, "relu", [[c["side"]]], SIZES)
    c["x"] = op(g, "add", [[c["x"]], [c["side"]]], SIZES)
    c["side"] = side if "side" not in odd else c["x"]


def take_seen(g, path, c, odd):
    """A softmax over the sequence gates each token."""
    gate = op(g, "softmax", [[c["x"]]], SIZES, dim=1 if "literal" in odd else 2)
    c["x"] = op(g, "mul", [[c["x"]], [gate]], SIZES)


PARTS = [mlp, mlp, mlp, gated_mlp, norm, scale, scale_by_number, turn, scale_by_shared, mask, add_in_place, halves, branch, hand_on,
         add_older, add_old, no_grad, cast, keep_side, take_seen]  # fmt: skip
ODD = ["bias", "name", "residual", "leaf", "shape", "literal", "shared", "in_place", "older", "detach", "type", "side"]
CARRIED = ("x", "old", "older", "side")
# Values other than x that parts need.
HANDED = {hand_on: ("old", "older"), add_old: ("old", "older"), add_older: ("old", "older"), keep_side: ("side",)}


def draw_model(random):
    """Returns (the model, its number of layers)."""
    g = begin("Stack")
    module(g, "", "Stack")
    count = random.choice(LAYERS)
    (outside,) = [given(g, "x", SIZES)]
    inside = enter(g, "", "Stack", outside)[0]
    c = {"x": inside}
    c["mask"] = op(g, "relu", [[inside]], SIZES)
    if random.random() < 0.7:
        c["x"] = linear(g, "embed", c["x"], 8)
    c["shared"] = leaf(g, "", "shared", [8], owner="Stack")
    c["own"] = leaf(g, "", "own", [8], owner="Stack")
    if random.random() < 0.3:
        c["shared"] = op(g, "relu", [[c["shared"]]], [8])
    for name in ("old", "older", "side"):
        c[name] = op(g, "relu", [[c["x"]]], SIZES) if random.random() < 0.7 else c["x"]
    module(g, "layers", "ModuleList")
    parts = [random.choice(PARTS) for _ in range(random.randint(1, 4))]
    parts = [
        p for i, p in enumerate(parts) if p not in parts[:i] or p in (turn, scale_by_number, add_in_place, take_seen)
    ]
    carried = [n for n in CARRIED if n == "x" or any(n in HANDED.get(p, ()) for p in parts)]
    other = random.choice(ODD) if random.random() < 0.4 else None
    unlike = random.randrange(count)
    every = random.choice((1, 1, 1, 2, 3))
    for i in range(count):
        path = f"layers.{i}"
        inner = dict(zip(carried, enter(g, path, "Layer", *[c[n] for n in carried])))
        here = c | inner
        odd = [other] if other and (i == unlike or every > 1 and i % every == 0) else []
        for part in parts:
            part(g, path, here, odd)
        c |= dict(zip(carried, leave(g, path, *[here[n] for n in carried])))
    x = c["x"]
    for name in CARRIED[1:]:
        if random.random() < 0.4:
            x = op(g, "add", [[x], [c[name]]], SIZES)
    x = linear(g, "head", x, 8)
    if random.random() < 0.3:
        x = op(g, "mul", [[x], [c["shared"]]], SIZES)
    g["output"] = leave(g, "", x)[0]
    return g, count


def tie(g, random):
    """Ties two parameters of equal shape."""
    names = [f"{m['path']}.{p}" for m in g["modules"] for p in m["parameters"] if m["path"].startswith("layers.")]
    same = [n for n in names if n.split(".")[2:] == names[0].split(".")[2:]] if names else []
    return [random.sample(same, 2)] if len(same) > 1 else []


def write_model(g, path, tied=()):
    modules = [{k: v for k, v in m.items() if v or k in ("path", "type")} for m in g["modules"]]
    strings = ["@enter", "@exit", *g["strings"]]
    move = lambda s: s + 2  # noqa: E731
    nodes = []
    for node in g["nodes"]:
        kind, *rest = node
        if len(rest) == 4:  # enter
            nodes.append([0, move(rest[0]), *rest[1:]])
        elif isinstance(rest[0], int):
            nodes.append([1, move(rest[0]), rest[1]])
        else:
            flat = [move(word) if at % 2 == 0 else word for at, word in enumerate(rest[1])]
            nodes.append([move(kind), rest[0], flat, rest[2]])
    graph = {
        "mode": "eval", "dtype": "float32", "batch": 2, "sequence": 8, "strings": strings, "shapes": g["shapes"], "sizes": g["sizes"],
        "values": [[s, move(d), r] for s, d, r in g["values"]],
        "leaves": [[i, k, move(n)] for i, k, n in g["leaves"]],
        "nodes": nodes, "output": g["output"],
    }  # fmt: skip
    model = {
        "format": "tpplan.model/1", "name": g["name"], "framework": "torch", "modules": modules, "tied": list(tied), "graph": graph,
    }  # fmt: skip
    path.write_text(json.dumps(model))


STYLES = {
    "glob": ["colwise", "rowwise", "replicate", "colwise_gather_output", "rowwise_split_input"],
    "transformers": ["colwise", "rowwise", "colwise_gather_output", "rowwise_split_input"],
    "torch": [
        "colwise",
        "rowwise",
        "sequence_parallel",
        "{style: colwise, output_layouts: Replicate}",
        "{style: colwise, input_layouts: Shard(1)}",
        "{style: colwise, use_local_output: false}",
        "{style: rowwise, output_layouts: Shard(1)}",
        "{style: rowwise, input_layouts: Replicate}",
        "{style: rowwise, use_local_output: false}",
        "{style: prepare_module_input, input_layouts: [Replicate], desired_input_layouts: [Shard(1)]}",
        "{style: prepare_module_output, output_layouts: [Replicate], desired_output_layouts: [Shard(1)]}",
    ],
}  # fmt: skip
# The two linears of one layer: correct, and different from the other layers.
OTHERWISE = {
    "glob": [("replicate", "replicate"), ("colwise_gather_output", "rowwise_split_input"), ("colwise", "rowwise")],
    "transformers": [("colwise_gather_output", "rowwise_split_input"), ("colwise", "rowwise")],
    "torch": [
        ("{style: colwise, output_layouts: Replicate}", "{style: rowwise, input_layouts: Replicate}"),
        ("{style: colwise, use_local_output: false}", "rowwise"),
    ],
}
WANTED = {"up": ["colwise"], "down": ["rowwise"]}
WHOLE = {"glob": ["colwise_gather_output", "replicate"], "transformers": ["colwise_gather_output"],
         "torch": ["{style: colwise, output_layouts: Replicate}"]}  # fmt: skip


def draw_plan(random, g, count):
    dialect = random.choice(list(STYLES))
    linears = [m["path"] for m in g["modules"] if m["type"] == "Linear"]
    names = sorted({p.split(".")[-1] for p in linears if p.startswith("layers.")})
    rules = {}
    if dialect == "torch" and any(m["type"] == "RMSNorm" for m in g["modules"]) and random.random() < 0.5:
        rules["layers.*.norm"] = "sequence_parallel"
    styles = [s for s in STYLES[dialect] if "sequence" not in s and "prepare" not in s]
    for name in names:
        right = random.random() < 0.85
        style = random.choice(WANTED.get(name, WHOLE[dialect]) if right else styles)
        if name in WANTED or random.random() < 0.3:
            rules[f"layers.*.{name}"] = style
    for path in ("embed", "head"):
        if path in linears and random.random() < 0.25:
            rules[path] = random.choice(WHOLE[dialect] if random.random() < 0.7 else styles)
    if dialect == "torch" and random.random() < 0.3:
        rules["layers.*"] = random.choice([s for s in STYLES["torch"] if "prepare" in s])
    if names and random.random() < 0.1:
        rules[f"layers.{random.randrange(count)}.{random.choice(names)}"] = random.choice(styles)
    if "up" in names and random.random() < 0.5:
        at, other = random.randrange(count), random.choice(OTHERWISE[dialect])
        rules |= {f"layers.{at}.up": other[0], f"layers.{at}.down": other[1]}
    if not rules:
        rules["head"] = "colwise"
    lines = [f'  "{key}": {style}' for key, style in rules.items()]
    if dialect != "torch":  # in torch both rules apply, otherwise only the later one
        lines.sort(key=lambda line: "*" not in line)
    return "\n".join(
        ["format: tpplan.plan/1", f"dialect: {dialect}", f"mesh: {{tp: {random.choice((2, 2, 4))}}}", "tp_plan:", *lines]
    ) + "\n"  # fmt: skip
