"""A second implementation of the checker, written only from the documents (README.md, plans/, schemas/, the pages of
`tpplan explain`, lib/README.md), in plain Python and for the dialects glob and regex. It shares no code and no tables
with lib/. If the two differ, one of them is wrong, or a document is unclear.

A model is the content of model.json. A plan is a dict: `dialect`, `mesh` ({axis: size}), `axis`, `uneven`, `data`
(axes), `rules` ([(key, treatment)]), `blocks` ([(pattern, [(key, treatment)])]). A treatment is a style, a spec or a
dict, as in the file.
"""

import itertools
import math
import re

BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8, "int8": 1, "int64": 8}

# Dim that a style shards, by name; None: no dim. Only styles that random_plans.py draws.
CUTS = {
    "colwise": "out",
    "colwise_gather_output": "out",
    "embedding_colwise": "out",
    "rowwise": "in",
    "rowwise_split_input": "in",
    "embedding_rowwise": "in",
    "replicate": None,
    "sequence_parallel": None,
    "replicated_with_grad_allreduce": None,
}
OPTIONS = {"colwise": {"use_local_output"}, "rowwise": {"use_local_output"}, "sequence_parallel": {"use_local_output"}}
PLAN_KEYS = {"dialect", "mesh", "axis", "uneven", "data", "rules", "blocks"}

# Names of the dims of a weight, by framework and type.
DIMS = {
    ("torch", "Linear"): {"weight": ["out", "in"], "bias": ["out"]},
    ("torch", "Embedding"): {"weight": ["in", "out"]},
    ("torch", "Conv1D"): {"weight": ["in", "out"], "bias": ["out"]},
    ("keras", "Dense"): {"kernel": ["in", "out"], "bias": ["out"]},
}
SIZES = {"TP5001", "TP5003", "TP5005", "TP5006", "TP5018"}
LEAVE_VALUES_ALONE = {"replicate", "replicated_with_grad_allreduce"}  # their rules may name a batch axis
UNREADABLE = {"TP3002", "TP3003", "TP3009"}  # exit status 2: the plan cannot be checked
NORMS = {"LayerNorm", "RMSNorm", "LayerNormalization"}


# --- reading the plan -------------------------------------------------------------------------------------------------


def parts(treatment):
    """Returns a treatment in full: {"style" or "spec": ..., options}."""
    if isinstance(treatment, dict):
        return treatment
    return {"spec": treatment} if isinstance(treatment, list) else {"style": treatment}


def spec_axes(spec):
    return [
        axis for entry in spec for axis in (entry if isinstance(entry, list) else [entry]) if axis not in (None, "...")
    ]


def all_rules(plan):
    """Returns every rule in file order: (pattern of its block or None, key, treatment in full)."""
    outside = [(None, key, parts(value)) for key, value in plan.get("rules", [])]
    inside = [(block, key, parts(value)) for block, rules in plan.get("blocks", []) for key, value in rules]
    return outside + inside


def axis_of(rule, plan):
    return rule.get("axis", plan.get("axis", "tp"))


def read_errors(plan):
    """Returns the codes of errors in the plan alone."""
    found, mesh = set(), plan.get("mesh")
    found |= {"TP3004" for key in plan if key not in PLAN_KEYS}
    found |= {"TP3013"} if plan.get("dialect", "glob") not in ("glob", "regex") else set()
    found |= {"TP3013"} if plan.get("uneven", "error") not in ("error", "torch") else set()
    if mesh is None:
        return found | {"TP3002"}
    found |= {"TP3009" for size in mesh.values() if size < 1}
    rules = all_rules(plan)
    if not rules:
        found.add("TP3010")
    for _, key, rule in rules:
        if not isinstance(rule.get("optional", False), bool):
            found.add("TP3003")
        if "spec" in rule:
            found |= {"TP3008" for option in rule if option in ("axis", "use_local_output")}
            spec = rule["spec"]
            if spec.count("...") > 1:
                found.add("TP3007")
            elif any(axis not in mesh for axis in spec_axes(spec)):  # a number is not the name of an axis
                found.add("TP3006")
        elif rule["style"] not in CUTS:
            found.add("TP3005")
        else:
            known = {"style", "axis", "optional"} | OPTIONS.get(rule["style"], set())
            found |= {
                "TP3008" if option == "contiguous" or option in OPTIONS["colwise"] else "TP3004"
                for option in rule
                if option not in known
            }
            axis = axis_of(rule, plan)
            if axis not in mesh and (rule["style"] != "replicate" or "axis" in rule):
                found.add("TP3006")
            if axis in plan.get("data", []) and axis in mesh and rule["style"] not in LEAVE_VALUES_ALONE:
                found.add("TP3020")
        if plan.get("dialect") == "regex":
            try:
                re.compile(key)
            except re.error:
                found.add("TP3012")
    found |= {"TP3006" for axis in plan.get("data", []) if axis not in mesh}
    return found


# --- matching ---------------------------------------------------------------------------------------------------------


def is_pattern(key):
    return any(letter in key for letter in "*?[")


def glob(pattern, path):
    """Returns True if a glob matches the full path: * matches any text, ? any character, [a-z] and [!x] one character
    of a set or outside of it.
    """
    expression = re.sub(
        r"\*|\?|\[(!?)([^]]+)\]|[^*?[]+",
        lambda m: {"*": ".*", "?": "."}.get(m[0]) or (f"[{'^' if m[1] else ''}{m[2]}]" if m[2] else re.escape(m[0])),
        pattern,
    )
    return re.fullmatch(expression, path, re.DOTALL) is not None


def matches(dialect, key, path):
    return re.fullmatch(key, path) is not None if dialect == "regex" else glob(key, path)


def separator(model):
    return "/" if model["framework"] == "keras" else "."


def parameters(model):
    """Returns every parameter in order: (path, module, name, entry of the model)."""
    for module in model["modules"]:
        for name, tensor in module.get("parameters", {}).items():
            yield (module["path"] + separator(model) if module["path"] else "") + name, module, name, tensor


def module_paths(model):
    """Returns the paths of all modules, including containers that the model does not list."""
    paths = {""}
    for module in model["modules"]:
        names = module["path"].split(separator(model))
        paths |= {separator(model).join(names[:count]) for count in range(1, len(names) + 1)}
    return paths


def block_places(model, dialect, pattern):
    """Returns the outermost modules that a block's pattern matches."""
    found = [path for path in module_paths(model) if matches(dialect, pattern, path)]
    inside = separator(model)
    return [
        path
        for path in found
        if not any(path != other and (other == "" or path.startswith(other + inside)) for other in found)
    ]


def relative(path, place, model):
    """Returns a path relative to a module, or None if it is not inside."""
    if place == "":
        return path
    if path == place:
        return ""
    return path[len(place) + 1 :] if path.startswith(place + separator(model)) else None


def how_exact(rule, plan, model, path, module, places):
    """Returns how exactly a rule names a parameter (a larger number is more exact), or None. In descending order: the
    parameter's path; its module's path; the same in a block, which selects many modules; a pattern for the parameter; a
    pattern for the module. A key that matches a module's path is a key of that module.
    """
    block, key, _ = rule
    dialect = plan.get("dialect", "glob")
    for place in places:
        inner, owner = relative(path, place, model), relative(module, place, model)
        of_module = owner is not None and (block is None or owner != "") and matches(dialect, key, owner)
        if of_module or (inner and matches(dialect, key, inner)):
            kind = 0 if dialect == "regex" or is_pattern(key) else 1 if block is not None else 2
            return 2 * kind + (0 if of_module else 1)
    return None


def same(one, other, plan):
    """Returns True if two rules specify the same."""

    def wish(rule):
        rest = {key: value for key, value in rule.items() if key not in ("optional", "axis", "spec")}
        if "spec" in rule:
            return rest, [
                entry if isinstance(entry, list) or entry in (None, "...") else [entry] for entry in rule["spec"]
            ]
        return rest, axis_of(rule, plan)

    return wish(one) == wish(other)


def match(model, plan):
    """Finds the rule that applies to each parameter. Returns ({path: (its index, True if it matches by the module's
    path), or None}, number of parameters that each rule matches, errors, warnings).
    """
    rules, errors, warnings = all_rules(plan), set(), set()
    dialect = plan.get("dialect", "glob")
    places = [[""] if block is None else block_places(model, dialect, block) for block, _, _ in rules]
    for pattern, _ in plan.get("blocks", []):
        if not block_places(model, dialect, pattern):
            errors.add("TP4009")
    counts, shadowed, governs = [0] * len(rules), [True] * len(rules), {}
    for path, module, _, _ in parameters(model):
        exact = {}
        for index, rule in enumerate(rules):
            level = how_exact(rule, plan, model, path, module["path"], places[index])
            if level is not None:
                exact[index] = level
                counts[index] += 1
        best = [index for index in exact if exact[index] == max(exact.values())]
        governs[path] = (min(best), exact[min(best)] % 2 == 0) if best else None
        for index in best:
            shadowed[index] = False
        for index in best[1:]:
            if same(rules[best[0]][2], rules[index][2], plan):
                warnings.add("TP4004")
            else:
                errors.add("TP4003")
    for index, (block, _, rule) in enumerate(rules):
        if not counts[index] and places[index] and not rule.get("optional", False):
            errors.add("TP4001")
        if counts[index] and shadowed[index]:
            warnings.add("TP4005")
    return governs, counts, errors, warnings


# --- inference --------------------------------------------------------------------------------------------------------


def kind_of(model, module):
    if "kind" in module:
        return module["kind"]
    if module["type"] in NORMS:
        return "norm"
    if (model["framework"], module["type"]) in DIMS:
        return "embedding" if module["type"] == "Embedding" else "linear"
    return "other"


def dims_of(model, module, name, tensor):
    """Returns the names of the dims, or None if they are unknown."""
    if "dims" in tensor:
        return tensor["dims"]
    kind = module["type"]
    if "kind" in module:
        kind = {"linear": "Linear" if model["framework"] == "torch" else "Dense", "embedding": "Embedding"}.get(
            module["kind"], kind
        )
    table = DIMS.get((model["framework"], kind), {})
    return table.get(name) if len(table.get(name, [])) == len(tensor["shape"]) else None


def segments_of(model, module, name, tensor):
    """Returns the segments of fused dims: {dim: sizes}. A fused bias is sharded like its weight."""
    dims, said = dims_of(model, module, name, tensor) or [], tensor.get("segments", {})
    if not said and name == "bias":
        weight = module["parameters"].get("weight", module["parameters"].get("kernel", {}))
        sizes = weight.get("segments", {}).get("out")
        said = {"out": sizes} if sizes and sum(sizes) == tensor["shape"][0] else {}
    return {dims.index(dim): sizes for dim, sizes in said.items()}


def chunk(size, count):
    """Returns the chunks of torch.chunk as [begin, end], with empty ones at the end."""
    step = -(-size // count) if size else 0
    return [(min(index * step, size), min((index + 1) * step, size)) for index in range(count)]


def pieces(runs, count):
    """Splits each interval of a list into `count` chunks. Returns the chunks that each rank along one axis holds."""
    cut = [[(begin + a, begin + b) for a, b in chunk(end - begin, count)] for begin, end in runs]
    return [[run[rank] for run in cut] for rank in range(count)]


def wanted_spec(rule, by_module, plan, model, module, name, tensor):
    """Returns the spec that a rule specifies for a parameter: (lists of axes by dim, None) or (None, code)."""
    count = len(tensor["shape"])
    if "spec" in rule:
        spec = rule["spec"]
        if "..." in spec:
            if len(spec) - 1 > count:
                return None, "TP5002"
            at = spec.index("...")
            spec = spec[:at] + [None] * (count - len(spec) + 1) + spec[at + 1 :]
        if len(spec) != count:
            return None, "TP5002"
        return [[] if entry is None else entry if isinstance(entry, list) else [entry] for entry in spec], None
    if CUTS[rule["style"]] is None:
        return [[] for _ in tensor["shape"]], None
    dims, kind = dims_of(model, module, name, tensor), kind_of(model, module)
    if "dims" not in tensor and (
        kind == "norm" or (kind == "linear" and by_module and rule["style"].startswith("embedding"))
    ):
        return None, "TP5009"
    if dims is None:
        return None, "TP5010"
    return [[axis_of(rule, plan)] if dim == CUTS[rule["style"]] else [] for dim in dims], None


def held(shape, spec, segments, mesh):
    """Returns the intervals of each dim that every rank holds, by mesh coordinate, row-major. Axes shard one after the
    other, major first, and each segment is sharded separately.
    """
    by_rank = []
    for coordinate in itertools.product(*(range(size) for size in mesh.values())):
        place = dict(zip(mesh, coordinate))
        rank = []
        for dim, size in enumerate(shape):
            ends = list(itertools.accumulate(segments.get(dim, [size])))
            runs = list(zip([0, *ends], ends))
            for axis in spec[dim]:
                runs = pieces(runs, mesh[axis])[place[axis]]
            rank.append(runs)
        by_rank.append(rank)
    return by_rank


def legal(shape, spec, segments, granularity, dims, mesh, uneven):
    """Returns the codes of the errors in a spec with one entry per dim. Experts are not split, and each segment of a
    fused dim is sharded separately, whatever the size of the dim.
    """
    used = [axis for entry in spec for axis in entry]
    if len(used) != len(set(used)):
        return {"TP5004"}
    found = set()
    for dim, size in enumerate(shape):
        sizes = [mesh[axis] for axis in spec[dim]]
        product = math.prod(sizes)
        if uneven == "error" and any(part % product for part in segments.get(dim, [])):
            found.add("TP5005")
        elif uneven == "error" and size % product:
            alone = all(size % one == 0 for one in sizes)
            found.add("TP5018" if dims[dim : dim + 1] == ["expert"] else "TP5003" if alone else "TP5001")
        elif granularity.get(dim) and any(
            end % granularity[dim] and end != size
            for rank in held([size], [spec[dim]], {0: segments[dim]} if dim in segments else {}, mesh)
            for _, end in rank[0]
        ):
            found.add("TP5006")
    return found


def infer(model, plan, governs):
    """Computes the sharding of each parameter. Returns ({path: entry}, a set of codes for each wrong parameter)."""
    rules, mesh, table, errors = all_rules(plan), plan["mesh"], {}, []
    for path, module, name, tensor in parameters(model):
        segments = segments_of(model, module, name, tensor)
        entry = {"spec": [[] for _ in tensor["shape"]], "reason": "default", "rule": None, "segments": {}}
        table[path] = entry
        if governs[path] is None:
            continue
        index, by_module = governs[path]
        rule = rules[index][2]
        entry |= {"reason": "rule", "rule": index}
        spec, code = wanted_spec(rule, by_module, plan, model, module, name, tensor)
        if code:
            errors.append({code})
            entry["spec"] = None
            continue
        cut = {} if rule.get("contiguous") else {dim: sizes for dim, sizes in segments.items() if spec[dim]}
        dims = dims_of(model, module, name, tensor) or []
        blocks = {dims.index(dim): count for dim, count in tensor.get("granularity", {}).items()}
        wrong = legal(tensor["shape"], spec, cut, blocks, dims, mesh, plan.get("uneven", "error"))
        entry |= {"spec": None, "segments": {}} if wrong else {"spec": spec, "segments": cut}
        errors += [wrong] if wrong else []
    for index, (_, _, rule) in enumerate(rules):  # a spec with an axis twice is wrong even if it matches nothing
        axes = spec_axes(rule.get("spec", []))
        if index not in [governor[0] for governor in governs.values() if governor] and len(axes) != len(set(axes)):
            errors.append({"TP5004"})
    return table, errors


def tie(model, table):
    """Lets tied parameters without a rule follow the first one with a rule. Returns True if rules shard two legal tied
    parameters differently.
    """
    unlike = False
    for group in model.get("tied", []):
        ruled = [path for path in group if table[path]["rule"] is not None]
        good = [table[path] for path in ruled if table[path]["spec"] is not None]
        unlike |= any((one["spec"], one["segments"]) != (good[0]["spec"], good[0]["segments"]) for one in good)
        for path in group:
            if ruled and table[path]["rule"] is None:
                table[path] |= table[ruled[0]] | {"reason": "tied"}
    return unlike


# --- the expected manifest --------------------------------------------------------------------------------------------


def placements(shape, spec, segments, mesh):
    """Returns torch's placements of a spec by mesh axis, or None for segments that torch.chunk would not produce.

    torch applies axes in mesh order. An axis that shards a dim after an axis to its right is a strided shard, as is an
    axis of packed segments. If all shards are of equal size, and no packed dim is sharded again by an axis further
    left, checks that the placements produce the shards of the spec.
    """
    labels, order, exact = [], list(mesh), True
    for dim, sizes in segments.items():
        if [end - begin for begin, end in chunk(shape[dim], len(sizes))] != sizes:
            return None
    for axis in mesh:
        dim = next((dim for dim, entry in enumerate(spec) if axis in entry), None)
        if dim is None:
            labels.append(("Replicate", None, None))
            continue
        before = spec[dim][: spec[dim].index(axis)]
        factor = math.prod(mesh[other] for other in before if order.index(other) > order.index(axis))
        packs = len(segments.get(dim, [0]))
        labels.append(("Shard", dim, factor if factor > 1 else packs))
        product = math.prod(mesh[other] for other in spec[dim])
        exact &= all(size % product == 0 for size in segments.get(dim, [shape[dim]])) and (packs == 1 or factor == 1)
    if exact:
        check_words(shape, labels, held(shape, spec, segments, mesh), mesh)
    return [
        kind if kind == "Replicate" else f"Shard({dim})" if factor == 1 else f"StridedShard({dim}, {factor})"
        for kind, dim, factor in labels
    ]


def check_words(shape, labels, by_rank, mesh):
    """Fails if the shards that torch computes from these placements differ from those of the spec."""
    coordinates = itertools.product(*(range(size) for size in mesh.values()))
    for mine, coordinate in zip(by_rank, coordinates):
        for dim, size in enumerate(shape):
            left = list(range(size))
            for (kind, of, factor), place, count in zip(labels, coordinate, mesh.values()):
                if kind == "Shard" and of == dim:
                    groups = [left[a:b] for a, b in chunk(len(left), factor)]
                    left = [index for group in groups for index in group[slice(*chunk(len(group), count)[place])]]
            assert left == [index for begin, end in mine[dim] for index in range(begin, end)], (shape, labels, mesh)


def piece_shape(rank):
    return [sum(end - begin for begin, end in runs) for runs in rank]


def describe(model, plan, table, counts):
    """Returns the fields of the manifest, from the shards of every rank."""
    rules, mesh, listed = all_rules(plan), plan["mesh"], []
    aliases = {path for group in model.get("tied", []) for path in [p for p in table if p in group][1:]}
    ranks = math.prod(mesh.values())
    held_bytes, whole, replicated, elements, cuts = [0] * ranks, 0, 0, 0, set()
    for path, _, _, tensor in parameters(model):
        entry, shape = table[path], tensor["shape"]
        spec = entry["spec"]
        by_rank = held(shape, spec, entry["segments"], mesh)
        used = [axis for axis in mesh if any(axis in dim for dim in spec)]
        cuts |= set(used)
        one = {
            "path": path,
            "spec": [None if not dim else dim[0] if len(dim) == 1 else dim for dim in spec],
            "placements": placements(shape, spec, entry["segments"], mesh),
            "reason": entry["reason"],
            "rule": entry["rule"],
            "style": None if entry["rule"] is None else rules[entry["rule"]][2].get("style", "spec"),
            "grad_reduce": [
                [axis, "reduce_scatter" if axis in used else "all_reduce"] for axis in mesh if axis in plan["data"]
            ],
            "replicas": ranks // math.prod(mesh[axis] for axis in used),
            "held": by_rank,
            "segments": {str(dim): sizes for dim, sizes in entry["segments"].items()},
        }
        listed.append(one)
        if path in aliases:
            continue
        size = BYTES[tensor["dtype"]]
        elements += math.prod(shape)
        whole += math.prod(shape) * size
        replicated += math.prod(shape) * size if all(mesh[axis] == 1 for axis in used) else 0
        for rank, runs in enumerate(by_rank):
            held_bytes[rank] += math.prod(piece_shape(runs)) * size
    totals = {
        "parameters": len(listed) - len(aliases),
        "elements": elements,
        "bytes": whole,
        "bytes_per_rank": held_bytes,
        "max_bytes_per_rank": max(held_bytes),
        "ideal_bytes_per_rank": -(
            -whole // math.prod(size for axis, size in mesh.items() if axis in cuts or axis not in plan["data"])
        ),
        "replicated_bytes_per_rank": replicated,
    }
    return {"parameters": listed, "totals": totals, "matches": counts}


def judge(model, plan):
    """Returns the expected result: `status`. For a wrong plan `causes`, sets of codes: one code of each set is
    reported, and no other code except those in `also`. For a correct plan the contents of the manifest, and the known
    `warnings` (TP4004, TP4005).
    """
    wrong = read_errors(plan)
    if wrong:
        return {"status": 2 if wrong & UNREADABLE else 1, "phase": "read", "causes": [{code} for code in wrong]}
    governs, counts, wrong, warnings = match(model, plan)
    if wrong:
        # Rules in a block that matches nothing match nothing either: reporting that is optional.
        hidden = wrong & {"TP4001"} if "TP4009" in wrong else set()
        return {"status": 1, "phase": "match", "causes": [{code} for code in wrong - hidden], "also": hidden}
    table, causes = infer(model, plan, governs)
    if tie(model, table):
        causes.append({"TP5011"})
    if (
        sum(bool(cause & SIZES) for cause in causes) > 1
    ):  # errors that another size of one axis would fix are reported once
        either = {"TP5001"}.union(*(cause & SIZES for cause in causes))
        causes = [cause | either if cause & SIZES else cause for cause in causes]
    if causes:
        return {"status": 1, "phase": "infer", "causes": causes}
    return {"status": 0, "phase": "manifest", "causes": [], "warnings": warnings} | describe(model, plan, table, counts)
