"""Random logical axis rules, the results of Flax and JAX for them, and those of tpplan: for the recording, the recorded
test and the live test.
"""

import json

from recorded import compile_files, model_of

NAMES = ("batch", "embed", "mlp", "heads", "kv", "vocab", "layers")
AXES = {"data": 2, "fsdp": 2, "tp": 2}
REFUSALS = {
    "names": ("TP4012",),  # one name twice
    "axes": ("TP5004",),  # one axis twice
    "shape": ("TP5001", "TP5003"),  # does not divide
}


def random_case(chance):
    """{"rules": [[name, axis, axes or None]], "arrays": [{"names", "shape"}]}. Flax or JAX rejects a few of them."""
    choices = [*AXES, *AXES, None, [], ["fsdp", "tp"], ["data", "fsdp"], ["tp", "data"], ["data", "fsdp", "tp"]]
    odd = chance.random()
    if odd < 0.1:
        choices.append(["tp", "tp"])
    arrays = []
    for _ in range(chance.randint(1, 8)):
        names = chance.sample(NAMES, chance.randint(0, 4))
        if 0.1 < odd < 0.2 and len(names) > 1:
            names[-1] = chance.choice(names)
        names = [chance.choice([name, name, name, None]) for name in names]
        sizes = [8, 16, 24] if odd < 0.8 else [8, 12, 6, 7]
        arrays.append({"names": names, "shape": [chance.choice(sizes) for _ in names]})
    rules = [[chance.choice(NAMES), chance.choice(choices)] for _ in range(chance.randint(1, 12))]
    return {"rules": rules, "arrays": arrays}


def add_truth(case):
    """Adds the results of Flax and JAX on a mesh of 8 devices to each array of a case: `spec` and `local`, or
    `refused`.
    """
    import jax
    import numpy as np
    from flax.linen import spmd

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(tuple(AXES.values())), tuple(AXES))
    rules = tuple((name, tuple(axes) if isinstance(axes, list) else axes) for name, axes in case["rules"])
    for array in case["arrays"]:
        array |= truth_of(jax, spmd, mesh, rules, array)
    return case


def truth_of(jax, spmd, mesh, rules, array):
    try:
        spec = spmd.logical_to_mesh_axes(tuple(array["names"]), rules)
    except ValueError:
        return {"refused": "names"}
    try:
        sharding = jax.sharding.NamedSharding(mesh, spec)
    except Exception:  # DuplicateSpecError is not public
        return {"refused": "axes"}
    try:
        local = sharding.shard_shape(tuple(array["shape"]))
    except ValueError:
        return {"refused": "shape"}
    entries = [list(entry) if isinstance(entry, tuple) else entry for entry in spec]
    return {"spec": entries, "local": list(local)}


def plan_of(rules):
    lines = [f"  - {json.dumps(rule)}\n" for rule in rules]
    mesh = ", ".join(f"{axis}: {size}" for axis, size in AXES.items())
    return f"format: tpplan.plan/1\ndialect: logical\nmesh: {{{mesh}}}\ntp_plan:\n{''.join(lines)}"


def check_case(folder, case):
    """Returns True if the program's results equal those of Flax and JAX."""
    parameters = {
        f"p{i}": {"shape": array["shape"], "dtype": "float32", "logical_axes": array["names"]}
        for i, array in enumerate(case["arrays"])
    }
    # One more array with all names, because a rule that applies to no name is an error here, but not in Flax.
    parameters["all"] = {"shape": [8] * len(NAMES), "dtype": "float32", "logical_axes": list(NAMES)}
    modules = [{"path": "", "type": "Model", "parameters": parameters}]
    twice = any(isinstance(axes, list) and len(set(axes)) < len(axes) for _, axes in case["rules"])
    status, manifest, said = compile_files(folder, model_of(modules, "jax"), plan_of(case["rules"]))
    refused = {array["refused"] for array in case["arrays"] if "refused" in array}
    if refused or (twice and status == 1):
        assert status == 1, (case, said)
        codes = {code for reason in refused | ({"axes"} if twice else set()) for code in REFUSALS[reason]}
        assert any(code in said for code in codes), (case, said)
        return
    assert status == 0, (case, said)
    by_path = {entry["path"]: entry for entry in manifest["parameters"]}
    for i, array in enumerate(case["arrays"]):
        entry = by_path[f"p{i}"]
        assert [spread(axes) for axes in entry["spec"]] == [spread(axes) for axes in array["spec"]], (case, i)
        assert entry["local_shape"] == array["local"], (case, i)


def spread(axes):
    return [] if axes is None else [axes] if isinstance(axes, str) else axes
