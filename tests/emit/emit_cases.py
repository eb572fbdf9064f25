"""Models and plans whose manifests the export tests write and read back."""

import json
import math
import random

FORMATS = ("jax", "keras", "onnx", "orbax", "shardy", "torch")
READERS = ("jax", "shardy", "torch")
MESH = "{fsdp: 2, tp: 4}"


def model_of(modules, framework="torch"):
    """A model of plain containers: {module path: {parameter name: shape, or (shape, {field: value})}}."""
    entries = []
    for path, parameters in modules.items():
        fields = {}
        for name, value in parameters.items():
            shape, more = value if isinstance(value, tuple) else (value, {})
            fields[name] = {"shape": shape, "dtype": "float32"} | more
        entries.append({"path": path, "type": "Container", "parameters": fields})
    return {"format": "tpplan.model/1", "name": "Model", "framework": framework, "modules": entries}


def plan_of(rules, mesh=MESH, more=""):
    """A plan of `spec` rules: {key: spec}. It is written as JSON, which is YAML except for DEL and for keys of more
    than 1024 bytes.
    """
    keys = [json.dumps(key, ensure_ascii=False).replace("\x7f", "\\u007f") for key in rules]
    lines = [f"  ? {key}\n  : {{spec: {json.dumps(spec)}}}\n" for key, spec in zip(keys, rules.values())]
    return f"format: tpplan.plan/1\nmesh: {mesh}\n{more}tp_plan:\n" + "".join(lines)


TWO_AXES = (
    model_of({"layers.0": {"wq": [32, 8]}, "layers.1": {"wq": [32, 8]}, "head": {"weight": [16, 8]}}),
    plan_of({"layers.*.wq": [["tp", "fsdp"], None], "head.weight": [["fsdp", "tp"], None]}),
)
EVEN = (
    model_of(
        {
            "layers.0": {"wq": [32, 8], "wo": [8, 32]},
            "layers.1": {"wq": [32, 8], "wo": [8, 32]},
            "experts": {"w": [4, 6, 10]},
            "norm": {"weight": [32]},
        }
    ),
    plan_of(
        {
            "layers.*.wq": ["tp", "fsdp"],
            "layers.*.wo": ["fsdp", "tp"],
            "experts.w": ["tp", None, "fsdp"],
            "norm.weight": [None],
        }
    ),
)
REPLICATED = (
    model_of({"a": {"w": [3, 5], "b": [7]}, "c": {"w": [2, 2]}}),
    plan_of({"a.w": [None, None], "a.b": [None], "c.w": [None, "fsdp"]}),
)
SCALAR = (
    model_of({"a": {"scale": [], "empty": [0, 4], "w": [8, 4]}}),
    plan_of({"a.scale": [], "a.empty": ["tp", None], "a.w": ["tp", "fsdp"]}),
)
UNEVEN = (
    model_of({"a": {"one": [5, 3], "empty": [2, 3], "even": [8, 3]}}),
    plan_of({"a.one": ["tp", None], "a.empty": ["tp", None], "a.even": ["tp", None]}, more="uneven: torch\n"),
)
UNEVEN_TWO_AXES = (model_of({"a": {"w": [10, 3]}}), plan_of({"a.w": [["fsdp", "tp"], None]}, more="uneven: torch\n"))
UNEVEN_STRIDED = (model_of({"a": {"w": [10, 3]}}), plan_of({"a.w": [["tp", "fsdp"], None]}, more="uneven: torch\n"))
# 7 over 2 x 2 is 2, 2, 2, 1, both axis by axis and over the product.
UNEVEN_ALIKE = (model_of({"a": {"w": [7]}}), plan_of({"a.w": [["a", "b"]]}, "{a: 2, b: 2}", "uneven: torch\n"))
FIVES = {"dims": ["out", "in"], "segments": {"out": [5, 5]}}
UNEVEN_SEGMENTS = (
    model_of({"a": {"w": ([10, 3], FIVES)}}),
    plan_of({"a.w": [["tp", "fsdp"], None]}, more="uneven: torch\n"),
)
SEGMENTS = (
    model_of({"a": {"equal": ([24, 4], {"dims": ["out", "in"], "segments": {"out": [8, 8, 8]}}), "plain": [8, 4]}}),
    plan_of({"a.equal": ["tp", "fsdp"], "a.plain": ["tp", None]}),
)
THIRDS = {"dims": ["out", "in"], "segments": {"out": [16, 16, 16]}}
SEGMENTS_TWO_AXES = (
    model_of({"a": {"minor_fsdp": ([48, 4], THIRDS), "minor_tp": ([48, 4], THIRDS)}}),
    plan_of({"a.minor_fsdp": [["tp", "fsdp"], None], "a.minor_tp": [["fsdp", "tp"], None]}),
)
UNEQUAL = (
    model_of({"a": {"qkv": ([32, 4], {"dims": ["out", "in"], "segments": {"out": [16, 8, 8]}})}}),
    plan_of({"a.qkv": ["tp", "fsdp"]}),
)

# Paths with a special meaning in JSON, YAML, MLIR, globs, regular expressions or terminals.
HOSTILE_NAMES = [
    'quote"',
    "back\\slash",
    "apostrophe'",
    "new\nline",
    "tab\t",
    "bell\x07",
    "nul\x00",
    "del\x7f",
    "c1\x85",
    "bom\ufeff",
    "line\u2028separator",
    "right\u202eleft",
    "snow\u2603",
    "clef\U0001d11e",
    "star*",
    "ask?",
    "bracket[0]",
    "open[",
    "close]",
    "brace{1}",
    "paren(2)",
    "hash # 1",
    "colon: 2",
    "- dash",
    "& anchor",
    "*alias",
    "!tag",
    "%percent",
    "@at",
    "`tick`",
    "null",
    "~",
    "true",
    "1e3",
    "0x10",
    "plus+",
    "pipe|",
    "caret^",
    "dollar$",
    "dot\\",
    "a[0-9]+b",
    "a1b",
    "a2b",
    "(?:)a7b",
    " space ",
    "<script>",
    "x" * 2000,
    "\u2026",
    "\\22",
    "//comment",
    "?key",
    "{",
    "}",
    "[",
    "]",
    ",",
    "#",
]


def hostile_case():
    """Every name sharded in one of four ways, by exact paths."""
    specs = ([None, None], ["tp", None], [None, "fsdp"], ["tp", "fsdp"])
    model = {
        "format": "tpplan.model/1",
        "name": 'Hostile "model"\n',
        "framework": "torch",
        "modules": [
            {
                "path": "m",
                "type": "Container",
                "parameters": {name: {"shape": [8, 4], "dtype": "float32"} for name in HOSTILE_NAMES},
            }
        ],
    }
    rules = {glob_of(f"m.{name}"): specs[i % 4] for i, name in enumerate(HOSTILE_NAMES)}
    return model, plan_of(rules)


def glob_of(path):
    """Returns the glob that matches only this path."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def random_spec(rng, ndim, axes, used=1.0):
    """Axes in random order on random dims."""
    spec = [[] for _ in range(ndim)]
    for axis in rng.sample(axes, len(axes)):
        if ndim and rng.random() < used:
            spec[rng.randrange(ndim)].append(axis)
    return [None if not entry else entry[0] if len(entry) == 1 else entry for entry in spec]


def random_case(seed, uneven=False, segments=False):
    """A model with numbered paths and a plan of exact keys. Some layouts repeat, so that paths form groups; others
    differ, so that they must not.
    """
    rng = random.Random(seed)
    mesh = {name: rng.choice((2, 2, 3, 4)) for name in rng.sample(["a", "b", "c"], rng.randint(1, 3))}
    modules, rules = {}, {}
    kinds = [[random_spec(rng, ndim, list(mesh), 0.7) for _ in range(2)] for ndim in (0, 1, 2, 3)]
    for stem in ("layers.{}", "layers.{}.mlp", "layers.{}.experts.{}", "head{}x", "norm"):
        for _ in range(rng.randint(1, 6)):
            path = stem.format(rng.choice((0, 1, 2, 10, 11, "07")), rng.choice((0, 1, 12)))
            for name in rng.sample(["w", "w2", "bias", "w10"], rng.randint(1, 3)):
                ndim = rng.randint(0, 3) if rng.random() < 0.2 else 2
                size = (lambda: rng.randint(0, 40)) if uneven else (lambda: 1728 * rng.randint(0, 2))
                shape, more = [size() for _ in range(ndim)], {}
                spec = rng.choice(kinds[ndim]) if rng.random() < 0.9 else random_spec(rng, ndim, list(mesh), 0.7)
                if segments and ndim == 2 and rng.random() < 0.5:
                    parts = [rng.choice((1728, 3456)) for _ in range(rng.randint(2, 3))]
                    shape[0], more = sum(parts), {"dims": ["out", "in"], "segments": {"out": parts}}
                modules.setdefault(path, {})[name] = (shape, more)
                rules[f"{path}.{name}"] = spec
    sizes = ", ".join(f"{name}: {size}" for name, size in mesh.items())
    return model_of(modules), plan_of(rules, mesh=f"{{{sizes}}}", more="uneven: torch\n" if uneven else "")


def random_seams_case(seed):
    """Small tensors with segments, sharded over up to two axes of the mesh in any order; evenly in every second
    case.
    """
    rng = random.Random(seed)
    axes = rng.sample(["a", "b"], 2)
    sizes = [rng.choice((2, 3)), 2]
    parameters, rules = {}, {}
    for i in range(12):
        equal = rng.random() < 0.6
        count = rng.randint(2, 4)
        unit = math.prod(sizes) if seed % 2 else 1
        parts = [unit * rng.randint(1, 6)] * count if equal else [unit * rng.randint(1, 4) for _ in range(count)]
        more = {"dims": ["out", "in"], "segments": {"out": parts}} if rng.random() < 0.7 else {}
        parameters[f"w{i}"] = ([sum(parts), 2 * unit], more)
        rules[f"m.w{i}"] = random_spec(rng, 2, axes, 0.9)
    mesh = ", ".join(f"{name}: {size}" for name, size in zip(axes, sizes))
    return model_of({"m": parameters}), plan_of(rules, mesh=f"{{{mesh}}}", more="uneven: torch\n")
