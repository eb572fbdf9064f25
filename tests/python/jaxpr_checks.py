"""Checks of test_jaxpr_graph.py, executed in a process with eight devices: right and wrong programs under
jax.shard_map, each checked from its jaxpr and executed on devices. The results must agree.
"""

import dataclasses
import json
import pathlib
import random

import bridge
import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh, PartitionSpec

from tpplan.export import jax_tree, shard_map
from tpplan.export.file_text import file_text
from tpplan.files import InputError

jax.config.update("jax_enable_x64", True)
psum, pmax, axis_index = jax.lax.psum, jax.lax.pmax, jax.lax.axis_index


@dataclasses.dataclass
class Case:
    """A program, its parameters, a correct plan as specs by path, its inputs (shape, dtype, spec) and the specs of its
    results.
    """

    function: object
    shapes: dict
    specs: dict
    inputs: dict
    mesh: dict
    out_specs: list | None = None


def tree_of(shapes, seed=0):
    """Returns a nested tree of arrays from {"up.kernel": shape}."""
    rng, tree = np.random.default_rng(seed), {}
    for path, shape in shapes.items():
        *above, name = path.split(".")
        node = tree
        for part in above:
            node = node.setdefault(part, {})
        node[name] = jnp.asarray(rng.normal(size=shape) / 2)
    return tree


def plan_of(mesh, specs):
    rules = {path: {"spec": list(spec)} for path, spec in specs.items() if any(spec)} or {"*": "replicate"}
    return f"format: tpplan.plan/1\nmesh: {json.dumps(mesh)}\ntp_plan: {json.dumps(rules)}\n"


def recorded(folder, tree, function, plan, inputs, out_specs=None):
    """Returns the model file with the traced operations. Raises InputError."""
    modules = jax_tree.model_graph(tree)
    described = {n: {"shape": list(s), "dtype": d, "spec": list(spec)} for n, (s, d, spec) in inputs.items()}
    graph = shard_map.graph_text(tree, modules, function, plan, described, out_specs)
    return bridge.write(folder, file_text(modules, graph), plan)


def judged(folder, tree, function, plan, inputs, out_specs=None):
    """Returns the checker's verdict (fails, wrong, right or unknown) and its diagnostics."""
    try:
        model, plan = recorded(folder, tree, function, plan, inputs, out_specs)
    except InputError as error:
        if "the program fails on the mesh" in str(error):
            return "fails", str(error)
        raise
    result = bridge.run("check", model, plan, "--mode", "infer", "--format", "json")
    found = json.loads(result.stdout)["diagnostics"]
    codes = [(d["code"], d["message"]) for d in found if d["severity"] == "error" or d["code"] == "TP5114"]
    if any(code == "TP5114" for code, _ in codes):
        return "unknown", codes
    if any(code == "TP5102" for code, _ in codes):
        return "fails", codes
    return ("wrong" if codes else "right"), codes


def values_of(inputs, vocabulary=16):
    rng = np.random.default_rng(1)
    made = {}
    for name, (shape, dtype, _) in inputs.items():
        whole = np.dtype(dtype).kind == "i"
        made[name] = jnp.asarray(rng.integers(0, vocabulary, shape) if whole else rng.normal(size=shape), dtype)
    return made


def happened(tree, function, mesh, specs, inputs, out_specs=None):
    """Returns the program's outcome on devices (fails, wrong or right), compared on every device."""
    count = int(np.prod(list(mesh.values())))
    device_mesh = Mesh(np.array(jax.devices()[:count]).reshape(list(mesh.values())), tuple(mesh))
    alone = Mesh(np.array(jax.devices()[:1]).reshape([1] * len(mesh)), tuple(mesh))
    given = values_of(inputs)
    leaves, structure = jax.tree.flatten(tree)
    paths = [".".join(str(k.key) for k in keys) for keys, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    in_specs = [PartitionSpec(*as_axes(specs.get(path, ()))) for path in paths]
    in_specs += [PartitionSpec(*as_axes(spec)) for _, _, spec in inputs.values()]

    def stacked(*arrays):
        model = jax.tree.unflatten(structure, arrays[: len(leaves)])
        return [x[None] for x in jax.tree.leaves(function(model, **dict(zip(given, arrays[len(leaves) :]))))]

    def run_on(where):
        mapped = jax.jit(  # eagerly, each operation is compiled apart
            jax.shard_map(
                stacked, mesh=where, in_specs=tuple(in_specs), out_specs=PartitionSpec(tuple(mesh)), check_vma=False
            )
        )
        return [np.asarray(x) for x in mapped(*leaves, *given.values())]

    wanted = [x[0] for x in run_on(alone)]
    try:
        made = run_on(device_mesh)
    except Exception:  # any error of JAX for shards that do not fit
        return "fails"
    for i, (each, whole) in enumerate(zip(made, wanted)):
        spec = (out_specs or [])[i] if out_specs and i < len(out_specs) else ()
        for rank, own in enumerate(each):
            piece = piece_of(whole, spec or (), mesh, rank)
            if own.shape != piece.shape or not np.allclose(own, piece, rtol=1e-9, atol=1e-9, equal_nan=False):
                return "wrong"
    return "right"


def as_axes(spec):
    return [tuple(entry) if isinstance(entry, list) else entry for entry in spec]


def piece_of(whole, spec, mesh, rank):
    at = dict(zip(mesh, np.unravel_index(rank, list(mesh.values()))))
    for dim, entry in enumerate(spec):
        for axis in entry if isinstance(entry, list) else [entry] if entry else []:
            whole = np.split(whole, mesh[axis], axis=dim)[at[axis]]
    return whole


def agree(folder, case, specs=None, mesh=None):
    """Checks that the verdict matches the outcome. `unknown` matches any."""
    specs, mesh = case.specs if specs is None else specs, mesh or case.mesh
    tree = tree_of(case.shapes)
    verdict, found = judged(folder, tree, case.function, plan_of(mesh, specs), case.inputs, case.out_specs)
    truth = happened(tree, case.function, mesh, specs, case.inputs, case.out_specs)
    assert verdict in (truth, "unknown"), (case.function.__name__, specs, verdict, truth, found)
    return verdict


# ---- programs ----

MESH = {"a": 2, "b": 2}
X = {"x": ((4, 6, 8), "float64", ())}
TOKENS = {"tokens": ((4, 6), "int32", ())}


def mlp(p, x):
    return psum(jax.nn.gelu(x @ p["up"]["kernel"] + p["up"]["bias"]) @ p["down"]["kernel"], "a") + p["down"]["bias"]


def mlp_without_sum(p, x):
    return jax.nn.gelu(x @ p["up"]["kernel"] + p["up"]["bias"]) @ p["down"]["kernel"] + p["down"]["bias"]


def mlp_summed_twice(p, x):
    return psum(mlp(p, x), "a")


def mlp_over_the_other_axis(p, x):
    h = jax.nn.gelu(x @ p["up"]["kernel"] + p["up"]["bias"])
    return psum(h @ p["down"]["kernel"], "b") + p["down"]["bias"]


def mlp_over_both_axes(p, x):
    h = jax.nn.gelu(x @ p["up"]["kernel"] + p["up"]["bias"])
    return psum(h @ p["down"]["kernel"], ("a", "b")) + p["down"]["bias"]


def mlp_bias_inside(p, x):
    return psum(jax.nn.gelu(x @ p["up"]["kernel"] + p["up"]["bias"]) @ p["down"]["kernel"] + p["down"]["bias"], "a")


def mlp_bias_of_one_rank(p, x):
    h = jax.nn.gelu(x @ p["up"]["kernel"] + p["up"]["bias"]) @ p["down"]["kernel"]
    return psum(h + jnp.where(axis_index("a") == 0, p["down"]["bias"], 0.0), "a")


def mlp_bias_divided(p, x):
    h = jax.nn.gelu(x @ p["up"]["kernel"] + p["up"]["bias"]) @ p["down"]["kernel"]
    return psum(h + p["down"]["bias"] / jax.lax.axis_size("a"), "a")


def mlp_mean(p, x):
    return jax.lax.pmean(mlp(p, x), ("a", "b"))


def mlp_scattered(p, x):
    h = jax.nn.gelu(x @ p["up"]["kernel"] + p["up"]["bias"]) @ p["down"]["kernel"]
    h = jax.lax.psum_scatter(h, "a", scatter_dimension=1, tiled=True)
    return jax.lax.all_gather(h + p["down"]["bias"], "a", axis=1, tiled=True)


def mlp_scattered_unlike(p, x):
    h = jax.nn.gelu(x @ p["up"]["kernel"] + p["up"]["bias"]) @ p["down"]["kernel"]
    h = jax.lax.psum_scatter(h, "a", scatter_dimension=0, tiled=True)
    return jax.lax.all_gather(h + p["down"]["bias"], "b", axis=0, tiled=True)


def attend(p, x, head_dim=4, sums="a"):
    q, k, v = (
        (x @ p[n]["kernel"]).reshape(*x.shape[:2], -1, head_dim).transpose(0, 2, 1, 3)
        for n in ("query", "key", "value")
    )
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(head_dim)
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1)
    out = jnp.einsum("bhqk,bhkd->bhqd", weights, v).transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
    out = out @ p["out"]["kernel"]
    return psum(out, sums) if sums else out


def attention(p, x):
    return attend(p, x)


def attention_without_sum(p, x):
    return attend(p, x, sums=None)


def rms_norm(scale, x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-2) * scale


def layer_norm(scale, bias, x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-2) * scale + bias


def norms(p, x):
    return layer_norm(p["norm"]["scale"], p["norm"]["bias"], rms_norm(p["norm"]["scale"], x))


def norm_of_pieces(p, x):
    """A norm over a sharded dim, in two steps."""
    mean = jax.lax.pmean(x.mean(-1, keepdims=True), "a")
    var = psum(((x - mean) ** 2).sum(-1, keepdims=True), "a") / 8
    return jax.lax.all_gather((x - mean) * jax.lax.rsqrt(var + 1e-2) * p["norm"]["scale"], "a", axis=2, tiled=True)


def norm_of_own_pieces(p, x):
    return jax.lax.all_gather(rms_norm(p["norm"]["scale"], x), "a", axis=2, tiled=True)


def rows_of(tokens, table, axis):
    """Returns which of the requested rows of an embedding are on the local rank."""
    rows = table.shape[0]
    own = tokens - axis_index(axis) * rows
    return own, (own >= 0) & (own < rows)


def embedding(p, tokens):
    table = p["embed"]["embedding"]
    own, mine = rows_of(tokens, table, "a")
    return psum(jnp.where(mine[..., None], table[jnp.where(mine, own, 0)], 0.0), "a")


def embedding_clipped(p, tokens):
    table = p["embed"]["embedding"]
    own, mine = rows_of(tokens, table, "a")
    return psum(jnp.take(table, jnp.clip(own, 0, table.shape[0] - 1), axis=0) * mine[..., None], "a")


def embedding_one_hot(p, tokens):
    table = p["embed"]["embedding"]
    own, _ = rows_of(tokens, table, "a")
    return psum(jax.nn.one_hot(own, table.shape[0], dtype=table.dtype) @ table, "a")


def embedding_without_mask(p, tokens):
    table = p["embed"]["embedding"]
    own, _ = rows_of(tokens, table, "a")
    return psum(jnp.take(table, jnp.clip(own, 0, table.shape[0] - 1), axis=0), "a")


def embedding_of_the_other_axis(p, tokens):
    table = p["embed"]["embedding"]
    own, mine = rows_of(tokens, table, "b")
    return psum(jnp.where(mine[..., None], table[jnp.where(mine, own, 0)], 0.0), "a")


def embedding_one_row_off(p, tokens):
    table = p["embed"]["embedding"]
    own, mine = rows_of(tokens, table, "a")
    mine = (own >= 0) & (own <= table.shape[0])
    return psum(jnp.where(mine[..., None], jnp.take(table, own, axis=0, mode="clip"), 0.0), "a")


def cross_entropy(p, x, tokens, local_maximum=False):
    logits = x @ p["head"]["kernel"]
    size = logits.shape[-1]
    own = tokens - axis_index("a") * size
    mine = (own >= 0) & (own < size)
    top = jax.lax.stop_gradient(logits.max(-1))
    top = top if local_maximum else pmax(top, "a")
    total = jnp.log(psum(jnp.exp(logits - top[..., None]).sum(-1), "a")) + top
    label = jnp.take_along_axis(logits, jnp.where(mine, own, 0)[..., None], axis=-1)[..., 0]
    return (total - psum(jnp.where(mine, label, 0.0), "a")).mean()


def cross_entropy_of_own_maximum(p, x, tokens):
    return cross_entropy(p, x, tokens, True)


def cross_entropy_of_data(p, x, tokens):
    return jax.lax.pmean(cross_entropy(p, x, tokens), "b")


def layer(p, x):
    x = x + attend(p["attn"], rms_norm(p["norm1"]["scale"], x))
    h = rms_norm(p["norm2"]["scale"], x)
    h = jax.nn.silu(h @ p["mlp"]["gate"]["kernel"]) * (h @ p["mlp"]["up"]["kernel"])
    return x + psum(h @ p["mlp"]["down"]["kernel"], "a")


def decoder(p, tokens):
    x = embedding(p, tokens)
    for i in range(2):
        x = layer(p["layers"][str(i)], x)
    x = rms_norm(p["norm"]["scale"], x)
    return cross_entropy(p, x, tokens)


def decoder_logits(p, tokens):
    x = embedding(p, tokens)
    for i in range(2):
        x = layer(p["layers"][str(i)], x)
    return x @ p["head"]["kernel"]


def decoder_scanned(p, tokens):
    """Stacked layers, executed by a scan."""
    x, _ = jax.lax.scan(lambda x, p: (layer(p, x), None), embedding(p, tokens), p["layers"])
    return cross_entropy(p, x, tokens)


def decoder_remat(p, tokens):
    x = embedding(p, tokens)
    for i in range(2):
        x = jax.checkpoint(layer)(p["layers"][str(i)], x)
    return cross_entropy(p, x, tokens)


def positions(p, x):
    """Adds local positions to a shard of the sequence."""
    at = axis_index("a") * x.shape[1] + jnp.arange(x.shape[1])
    return jnp.sin(at[None, :, None] * 0.1) + x * p["norm"]["scale"]


def positions_from_zero(p, x):
    return jnp.sin(jnp.arange(x.shape[1])[None, :, None] * 0.1) + x * p["norm"]["scale"]


def own_slice(p, x):
    """Each rank computes a slice of a replicated value."""
    size = x.shape[-1] // jax.lax.axis_size("a")
    x = jax.lax.dynamic_slice_in_dim(x, axis_index("a") * size, size, axis=-1)
    return psum(x @ p["down"]["kernel"], "a")


def own_slice_of_the_other_axis(p, x):
    size = x.shape[-1] // jax.lax.axis_size("a")
    x = jax.lax.dynamic_slice_in_dim(x, axis_index("b") * size, size, axis=-1)
    return psum(x @ p["down"]["kernel"], "a")


def data_mean(p, x):
    return jax.lax.pmean((mlp(p, x) ** 2).mean(), "b")


def data_mean_of_one(p, x):
    return (mlp(p, x) ** 2).mean()


def sums_where_there_are_others(p, x):
    h = jax.nn.gelu(x @ p["up"]["kernel"] + p["up"]["bias"]) @ p["down"]["kernel"]
    return (psum(h, "a") if jax.lax.axis_size("a") > 1 else h) + p["down"]["bias"]


MLP = {"up.kernel": (8, 16), "up.bias": (16,), "down.kernel": (16, 8), "down.bias": (8,)}
MLP_SPECS = {"up.kernel": (None, "a"), "up.bias": ("a",), "down.kernel": ("a", None)}
ATTENTION = {f"{n}.kernel": (8, 8) for n in ("query", "key", "value", "out")}
ATTENTION_SPECS = {f"{n}.kernel": (None, "a") for n in ("query", "key", "value")} | {"out.kernel": ("a", None)}
NORM = {"norm.scale": (8,), "norm.bias": (8,)}
EMBED, EMBED_SPECS = {"embed.embedding": (16, 8)}, {"embed.embedding": ("a", None)}
HEAD, HEAD_SPECS = {"head.kernel": (8, 16)}, {"head.kernel": (None, "a")}
LAYER = {f"attn.{path}": shape for path, shape in ATTENTION.items()} | {
    "norm1.scale": (8,),
    "norm2.scale": (8,),
    "mlp.gate.kernel": (8, 16),
    "mlp.up.kernel": (8, 16),
    "mlp.down.kernel": (16, 8),
}
LAYER_SPECS = {f"attn.{path}": spec for path, spec in ATTENTION_SPECS.items()} | {
    "mlp.gate.kernel": (None, "a"),
    "mlp.up.kernel": (None, "a"),
    "mlp.down.kernel": ("a", None),
}
DECODER = {f"layers.{i}.{path}": shape for i in range(2) for path, shape in LAYER.items()} | EMBED | HEAD | NORM
DECODER_SPECS = {f"layers.{i}.{p}": s for i in range(2) for p, s in LAYER_SPECS.items()} | EMBED_SPECS | HEAD_SPECS
STACKED = {f"layers.{path}": (2, *shape) for path, shape in LAYER.items()} | EMBED | HEAD
STACKED_SPECS = {f"layers.{path}": (None, *spec) for path, spec in LAYER_SPECS.items()} | EMBED_SPECS | HEAD_SPECS
CUT_SEQUENCE = {"x": ((4, 6, 8), "float64", (None, "a"))}
CUT_FEATURES = {"x": ((4, 6, 8), "float64", (None, None, "a"))}
CUT_BATCH = {"x": ((4, 6, 8), "float64", ("b",))}
BOTH = X | TOKENS
CUT_BOTH = CUT_BATCH | {"tokens": ((4, 6), "int32", ("b",))}
SCALE = {"norm.scale": ("a",)}

# Programs by verdict.
CASES = {
    "right": [
        Case(mlp, MLP, MLP_SPECS, X, MESH),
        Case(mlp, MLP, MLP_SPECS, CUT_BATCH, MESH, [["b"]]),
        Case(mlp_bias_of_one_rank, MLP, MLP_SPECS, X, MESH),
        Case(mlp_bias_divided, MLP, MLP_SPECS, X, MESH),
        Case(mlp_mean, MLP, MLP_SPECS, X, MESH),
        Case(mlp_scattered, MLP, MLP_SPECS, X, MESH),
        Case(sums_where_there_are_others, MLP, MLP_SPECS, X, MESH),
        Case(data_mean, MLP, MLP_SPECS, CUT_BATCH, MESH),
        Case(attention, ATTENTION, ATTENTION_SPECS, X, MESH),
        Case(norms, NORM, {}, X, MESH),
        Case(norm_of_pieces, NORM, SCALE, CUT_FEATURES, MESH),
        Case(embedding, EMBED, EMBED_SPECS, TOKENS, MESH),
        Case(embedding_clipped, EMBED, EMBED_SPECS, TOKENS, MESH),
        Case(embedding_one_hot, EMBED, EMBED_SPECS, TOKENS, MESH),
        Case(cross_entropy, HEAD, HEAD_SPECS, BOTH, MESH),
        Case(cross_entropy_of_data, HEAD, HEAD_SPECS, CUT_BOTH, MESH),
        Case(decoder, DECODER, DECODER_SPECS, TOKENS, MESH),
        Case(decoder_remat, DECODER, DECODER_SPECS, TOKENS, MESH),
        Case(decoder_scanned, STACKED, STACKED_SPECS, TOKENS, MESH),
        Case(decoder_logits, DECODER, DECODER_SPECS, TOKENS, MESH, [[None, None, "a"]]),
        Case(positions, NORM, {}, CUT_SEQUENCE, MESH, [[None, "a"]]),
        Case(own_slice, {"down.kernel": (8, 8)}, {"down.kernel": ("a", None)}, X, MESH),
    ],
    "wrong": [
        Case(mlp_without_sum, MLP, MLP_SPECS, X, MESH),
        Case(mlp_summed_twice, MLP, MLP_SPECS, X, MESH),
        Case(mlp_over_the_other_axis, MLP, MLP_SPECS, X, MESH),
        Case(mlp_over_both_axes, MLP, MLP_SPECS, X, MESH),
        Case(mlp_bias_inside, MLP, MLP_SPECS, X, MESH),
        Case(mlp_scattered_unlike, MLP, MLP_SPECS, X, MESH),
        Case(mlp, MLP, {}, X, MESH),
        Case(mlp, MLP, MLP_SPECS, CUT_BATCH, MESH),
        Case(data_mean_of_one, MLP, MLP_SPECS, CUT_BATCH, MESH),
        Case(attention_without_sum, ATTENTION, ATTENTION_SPECS, X, MESH),
        Case(norm_of_own_pieces, NORM, SCALE, CUT_FEATURES, MESH),
        Case(embedding_without_mask, EMBED, EMBED_SPECS, TOKENS, MESH),
        Case(embedding_of_the_other_axis, EMBED, EMBED_SPECS, TOKENS, MESH),
        Case(embedding_one_row_off, EMBED, EMBED_SPECS, TOKENS, MESH),
        Case(cross_entropy_of_own_maximum, HEAD, HEAD_SPECS, BOTH, MESH),
        Case(decoder_logits, DECODER, DECODER_SPECS, TOKENS, MESH),
        Case(positions_from_zero, NORM, {}, CUT_SEQUENCE, MESH, [[None, "a"]]),
        Case(own_slice_of_the_other_axis, {"down.kernel": (8, 8)}, {"down.kernel": ("a", None)}, X, MESH),
    ],
    "fails": [
        Case(mlp, MLP, MLP_SPECS | {"down.kernel": (None, "a")}, X, MESH),
        Case(attention, ATTENTION, ATTENTION_SPECS | {"query.kernel": ()}, X, MESH),
    ],
}


def programs(folder, verdict):
    """Checks each program of one verdict, and executes it."""
    for i, case in enumerate(CASES[verdict]):
        below = pathlib.Path(folder) / str(i)
        below.mkdir()
        assert agree(below, case) == verdict, (case.function.__name__, verdict)


class EquinoxMlp(eqx.Module):
    up: eqx.nn.Linear
    down: eqx.nn.Linear

    def __init__(self, key):
        self.up = eqx.nn.Linear(8, 16, use_bias=False, key=key)
        self.down = eqx.nn.Linear(16, 8, use_bias=False, key=key)

    def __call__(self, x):
        return jax.vmap(jax.vmap(self.down))(jax.nn.gelu(jax.vmap(jax.vmap(self.up))(x)))


class NnxMlp(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Linear(8, 16, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(16, 8, use_bias=False, rngs=rngs)

    def __call__(self, x):
        return self.down(jax.nn.gelu(self.up(x)))


class LinenMlp(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = jax.nn.gelu(linen.Dense(16, use_bias=False, name="up", param_dtype=jnp.float64)(x))
        return linen.Dense(8, use_bias=False, name="down", param_dtype=jnp.float64)(x)


def modules(folder):
    """Framework modules, called in the program with a rank's shards: right with a reduction, wrong without. Linen
    compares its parameters with the sizes of the module, so the module is created with local sizes.
    """
    plan = "format: tpplan.plan/1\nmesh: {a: 2}\naxis: a\ntp_plan: {up: colwise, down: rowwise}\n"
    inputs = {"x": ((4, 6, 8), "float64", ())}
    trees = [EquinoxMlp(jax.random.key(0)), NnxMlp(nnx.Rngs(0))]
    for i, tree in enumerate(trees):
        for j, (function, wanted) in enumerate([(lambda m, x: psum(m(x), "a"), "right"), (lambda m, x: m(x), "wrong")]):
            below = pathlib.Path(folder) / f"{i}{j}"
            below.mkdir()
            verdict, found = judged(below, tree, function, plan, inputs)
            assert verdict == wanted, (type(tree).__name__, verdict, found)
    params = LinenMlp().init(jax.random.key(0), jnp.zeros((4, 6, 8)))["params"]

    class OwnMlp(linen.Module):
        @linen.compact
        def __call__(self, x):
            ways = jax.lax.axis_size("a")
            x = jax.nn.gelu(linen.Dense(16 // ways, use_bias=False, name="up")(x))
            return linen.Dense(8, use_bias=False, name="down")(x)

    for name, module, wanted in (("own", OwnMlp(), "right"), ("whole", LinenMlp(), "fails")):
        below = pathlib.Path(folder) / name
        below.mkdir()
        verdict, found = judged(
            below, params, lambda p, x, m=module: psum(m.apply({"params": p}, x), "a"), plan, inputs
        )
        assert verdict == wanted, (name, verdict, found)


def random_plans(folder, seed, count=12):
    """Random plans for programs that are right with their own plan: every verdict matches the outcome."""
    rng = random.Random(f"plans {seed}")
    cases = [case for case in CASES["right"] if case.function not in (decoder_remat, decoder_scanned)]
    verdicts = {}
    for turn in range(int(count)):
        case = rng.choice(cases)
        specs = dict(case.specs)
        for path in rng.sample(sorted(case.shapes), rng.randint(1, min(3, len(case.shapes)))):
            spec = [None] * len(case.shapes[path])
            for axis in rng.choice([("a",), ("b",), ("a", "b"), ()]):
                spec[rng.randrange(len(spec))] = axis
            specs[path] = tuple(spec)
        below = pathlib.Path(folder) / f"{turn}"
        below.mkdir()
        verdict = agree(below, case, specs)
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    assert len(verdicts) > 1, verdicts
    print(verdicts)


if __name__ == "__main__":
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as here:
        globals()[sys.argv[1]](here, *sys.argv[2:])
