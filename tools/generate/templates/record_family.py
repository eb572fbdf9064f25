"""Traces the graphs of a family's variants, and merges them into one template."""

import json
import pathlib
import tempfile

from blocks import Unlike, activation, split
from families import ACTIVATIONS, ELSEWHERE, FRACTIONS, HARMLESS, OWN, UNREAD, draw, kinds, rope_types, variants
from solve import Solver

RECORDINGS = 6  # traces of each variant


def trace(config, batch, sequence, device="meta"):
    """Returns (graph, model): the graph that the exporter writes for a config's transformers model."""
    from tpplan.export import operations, transformers_model
    from tpplan.graph.settings import Settings

    settings = Settings(batch=batch, sequence=sequence)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        model = transformers_model.build(str(path), {}, device, settings)
    return json.loads(operations.record(transformers_model, model, device, settings)), model


def activation_paths(model):
    return {path for path, _ in model.named_modules() if path.rpartition(".")[2] in ACTIVATIONS}


def record_variant(family, variant, config_class):
    """Returns the merged template of a variant's traces: {"head", "layers", "tail"}. Raises Unlike if its traces or
    layers differ."""
    fields, heads, layers, tails = [], [], [], []
    for config, drawn, order in _configs(family, variant, config_class):
        graph, model = trace(config, drawn["batch"], drawn["sequence"])
        name_list(graph, config["rope_scaling"], "long_factor")
        head, found, tail = split(graph, activation_paths(model))
        by_kind = {}
        for kind, layer in zip(order, found):
            by_kind.setdefault(kind, []).append(layer.json())
        fields.append(drawn)
        first = _first(by_kind[order[0]])
        for kind, same in by_kind.items():
            if any(layer != same[-1] for layer in same[1:]):
                raise Unlike(f"layers of one kind ({kind}) differ")
        layers.append({kind: same[-1] for kind, same in by_kind.items()})
        heads.append(head.json() | {"gives": first})
        tails.append(tail.json() | {"output": tail.output})
        for kind in layers[-1]:
            mine = {_given(found[i], [*found, tail][i + 1]) for i, k in enumerate(order) if k == kind}
            if len(mine) != 1:
                raise Unlike("layers of one kind return different values")
            layers[-1][kind]["gives"] = mine.pop()
    solver = Solver(fields)
    merged = {kind: solver.merge([row[kind] for row in layers], kind) for kind in layers[0]}
    return {"head": solver.merge(heads, "head"), "layers": merged, "tail": solver.merge(tails, "tail")}


def name_list(graph, fields, name):
    """Replaces a list of the config by its name, because its length varies."""
    for node in graph["nodes"]:
        if graph["strings"][node[0]] == "tensor" and name in (fields or {}) and node[1] == [["t", *fields[name]]]:
            node[1] = [f"*{name}"]


def _configs(family, variant, config_class):
    """Returns RECORDINGS random configs in which every field has several values; otherwise it would be merged as a
    constant."""
    for first in range(100):
        made = [draw(family, variant, config_class, first + k) for k in range(RECORDINGS)]
        if all(len({fields[name] for _, fields, _ in made}) > 1 for name in made[0][1] if made[0][1][name] is not None):
            return made
    raise Unlike("a field has only one value")


def _given(layer, following):
    if len(following.carried) != 1:
        raise Unlike("a layer does not pass exactly one value to the next")
    (value,) = following.carried
    return f"$v{layer.at[value]}"


def _first(same):
    """Returns the head's value that the first layer uses in place of "$c", the output of a preceding layer. Raises
    Unlike if the first layer differs in more."""
    found = set()

    def compare(a, b):
        if type(a) is list and type(b) is list and len(a) == len(b):
            for x, y in zip(a, b):
                compare(x, y)
        elif type(a) is dict:
            for key in a:
                compare(a[key], b[key])
        elif a != b:
            if b != "$c" or not str(a).startswith("$h"):
                raise Unlike(f"the first layer differs from the others: {a} {b}")
            found.add(a)

    compare(same[0], same[-1])
    if len(found) != 1:
        raise Unlike(f"the first layer does not read exactly one value: {sorted(found)}")
    return found.pop()


def record_family(family):
    """Returns the contents of lib/hf_configs/templates/FAMILY.json."""
    import transformers

    config_class = transformers.CONFIG_MAPPING[family]
    defaults = json.loads(json.dumps(config_class().to_dict()))
    own = OWN.get(family, {})
    blocks, graphs = {}, []

    def keep(block):
        text = json.dumps(block)
        return blocks.setdefault(text, f"b{len(blocks)}")

    for variant in variants(family):
        made = record_variant(family, variant, config_class)
        graphs.append(
            {
                "when": variant,
                "head": keep(made["head"]),
                "layers": {kind: _taken(made["layers"][kind], keep) for kind in kinds(variant)},
                "tail": keep(made["tail"]),
            }
        )
    asked = [*FRACTIONS, *own.get("whole", ()), "pad_token_id", "max_position_embeddings"]
    numbers = {name: defaults[name] for name in asked if name in defaults}
    if "num_experts_per_tok" in defaults:
        numbers["num_experts_per_tok"] = defaults["num_experts_per_tok"]
    flags = {name: defaults[name] for name in own.get("flags", {}) if name in defaults}
    named = {*numbers, *flags, *UNREAD, *HARMLESS}
    return {
        "family": family,
        "transformers": transformers.__version__,
        "numbers": numbers,
        "flags": flags,
        "fixed": {name: value for name, value in defaults.items() if name not in named} | ELSEWHERE,
        "rope": rope_types(family)
        | {
            "theta": config_class.default_theta,
            "theta_key": "rotary_emb_base" if family == "gpt_neox" else "rope_theta",
            "original": defaults.get("original_max_position_embeddings"),
            "turns_a_part": bool(own.get("rotary")),
            "longrope_has_one_head_size": family == "phi3",
        },
        "window": _window(config_class, defaults),
        "layer_types": _layer_types(defaults, own),
        "graphs": graphs,
        "blocks": {name: json.loads(text) for text, name in blocks.items()},
    }


def _taken(layer, keep):
    """Returns [the layer's block, the head's values that it uses]. "$i0" in the block is the first of these. Layers
    that differ only in their mask share a block."""
    taken = []

    def rewrite(tree):
        if type(tree) is dict:
            return {key: rewrite(value) for key, value in tree.items()}
        if type(tree) is list:
            return [rewrite(value) for value in tree]
        if type(tree) is str and tree.startswith("$h"):
            if tree not in taken:
                taken.append(tree)
            return f"$i{taken.index(tree)}"
        return tree

    block = rewrite(layer)
    return [keep(block), taken]


def _window(config_class, defaults):
    """Returns the sliding-window defaults of a config: its size, whether it is used, and the first layer with it;
    None if the family has none. The size is read from a config that uses the window, because others do not store it."""
    if "sliding_window" not in defaults:
        return None
    using = {"use_sliding_window": True} if "use_sliding_window" in defaults else {}
    return {
        "size": config_class(**using).sliding_window,
        "is_used": defaults.get("use_sliding_window", True),
        "first_layer": defaults.get("max_window_layers"),
    }


def _layer_types(defaults, own):
    """Returns how the layer types follow from a config without `layer_types`; None if the family has only one."""
    if not own.get("types"):
        return None
    return "from max_window_layers" if "max_window_layers" in defaults else "alternating"


def record_activations():
    """Returns {name of an activation: its operations}."""
    from transformers.activations import ACT2CLS

    made = {}
    for name in ACT2CLS:
        if name in ("prelu", "xielu"):  # they have parameters, and config_families.cc does not support them
            continue
        found, fields = [], []
        for dtype in ("bfloat16", "float16", "float32"):
            config = {
                "model_type": "llama",
                "vocab_size": 96,
                "hidden_size": 64,
                "intermediate_size": 112,
                "num_hidden_layers": 1,
                "num_attention_heads": 4,
                "hidden_act": name,
                "dtype": dtype,
            }
            graph, _ = trace(config, 2, 16)
            found.append(activation(graph, "model.layers.0.mlp.act_fn"))
            fields.append({"dtype": dtype})
        made[name] = Solver(fields).merge(found, name)
    return made
