"""What a plan says of a model, worked out a second time: from the documents alone (README.md, plans/, schemas/, the pages of
`tpplan explain`, lib/README.md), in plain Python and for the dialects glob and regex. It shares no code and no tables with
lib/; where the two differ one of them is wrong, or a document is unclear.

A model is what model.json says. A plan is a dict: `dialect`, `mesh` ({axis: size}), `axis`, `uneven`, `data` (axes), `rules`
([(key, treatment)]), `blocks` ([(pattern, [(key, treatment)])]). A treatment is a style, a spec or a dict, as in the file."""

import itertools
import math
import re

BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8, "int8": 1, "int64": 8}

# What a style cuts, by the names of dims; None: nothing. Only those that are drawn.
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

# How the dims of a weight are called, by framework and type.
DIMS = {
    ("torch", "Linear"): {"weight": ["out", "in"], "bias": ["out"]},
    ("torch", "Embedding"): {"weight": ["in", "out"]},
    ("torch", "Conv1D"): {"weight": ["in", "out"], "bias": ["out"]},
    ("keras", "Dense"): {"kernel": ["in", "out"], "bias": ["out"]},
}
SIZES = {"TP5001", "TP5003", "TP5005", "TP5006", "TP5018"}
LEAVE_VALUES_ALONE = {"replicate", "replicated_with_grad_allreduce"}  # these may name an axis of the batch
UNREADABLE = {"TP3002", "TP3003", "TP3009"}  # exit status 2: nothing can be judged
NORMS = {"LayerNorm", "RMSNorm", "LayerNormalization"}


# --- reading the plan -------------------------------------------------------------------------------------------------


def parts(treatment):
    """A treatment in full: {"style" or "spec": ..., options}."""
    if isinstance(treatment, dict):
        return treatment
    return {"spec": treatment} if isinstance(treatment, list) else {"style": treatment}


def spec_axes(spec):
    return [
        axis for entry in spec for axis in (entry if isinstance(entry, list) else [entry]) if axis not in (None, "...")
    ]


def all_rules(plan):
    """Every rule in the order of the file: (pattern of its block or None, key, treatment in full)."""
    outside = [(None, key, parts(value)) for key, value in plan.get("rules", [])]
    inside = [(block, key, parts(value)) for block, rules in plan.get("blocks", []) for key, value in rules]
    return outside + inside


def axis_of(rule, plan):
    return rule.get("axis", plan.get("axis", "tp"))


def read_errors(plan):
    """The codes of what is wrong with the plan by itself."""
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
            elif any(axis not in mesh for axis in spec_axes(spec)):  # a number is the name of none
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
    """Whether a glob is the whole path: * is any run of characters, ? any one, [a-z] and [!x] one of or none of some."""
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
    """Every parameter in order: (its path, its module, its name, what the model says of it)."""
    for module in model["modules"]:
        for name, tensor in module.get("parameters", {}).items():
            yield (module["path"] + separator(model) if module["path"] else "") + name, module, name, tensor


def module_paths(model):
    """Paths of all modules, with containers that are not listed."""
    paths = {""}
    for module in model["modules"]:
        names = module["path"].split(separator(model))
        paths |= {separator(model).join(names[:count]) for count in range(1, len(names) + 1)}
    return paths


def block_places(model, dialect, pattern):
    """The outermost modules that a block's pattern matches."""
    found = [path for path in module_paths(model) if matches(dialect, pattern, path)]
    inside = separator(model)
    return [
        path
        for path in found
        if not any(path != other and (other == "" or path.startswith(other + inside)) for other in found)
    ]


def relative(path, place, model):
    """A path as seen from a module, or None where it is not inside."""
    if place == "":
        return path
    if path == place:
        return ""
    return path[len(place) + 1 :] if path.startswith(place + separator(model)) else None


def how_exact(rule, plan, model, path, module, places):
    """How exactly a rule names a parameter, the larger the more, or None. From the most exact down: the parameter's path, its
    module's; in a block the same, for it stands for many modules; a pattern for the parameter, and for the module. A key that
    matches a module's path is a module's key there."""
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
    """Whether two rules want the same."""

    def wish(rule):
        rest = {key: value for key, value in rule.items() if key not in ("optional", "axis", "spec")}
        if "spec" in rule:
            return rest, [
                entry if isinstance(entry, list) or entry in (None, "...") else [entry] for entry in rule["spec"]
            ]
        return rest, axis_of(rule, plan)

    return wish(one) == wish(other)


def match(model, plan):
    """Which rule decides over each parameter: ({path: its index, and whether
    by the module's path; or None}, parameters that each rule matches, errors, warnings)."""
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
    """Names of the dims, or None where nobody says them."""
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
    """Segments of fused dims: {dim: sizes}. A fused bias is cut like its weight."""
    dims, said = dims_of(model, module, name, tensor) or [], tensor.get("segments", {})
    if not said and name == "bias":
        weight = module["parameters"].get("weight", module["parameters"].get("kernel", {}))
        sizes = weight.get("segments", {}).get("out")
        said = {"out": sizes} if sizes and sum(sizes) == tensor["shape"][0] else {}
    return {dims.index(dim): sizes for dim, sizes in said.items()}


def chunk(size, count):
    """The pieces that torch.chunk makes, as [begin, end], and empty ones at the end."""
    step = -(-size // count) if size else 0
    return [(min(index * step, size), min((index + 1) * step, size)) for index in range(count)]


def pieces(runs, count):
    """A list of runs, each cut by itself into `count` pieces: what each of the ranks along one axis holds of it."""
    cut = [[(begin + a, begin + b) for a, b in chunk(end - begin, count)] for begin, end in runs]
    return [[run[rank] for run in cut] for rank in range(count)]


def wanted_spec(rule, by_module, plan, model, module, name, tensor):
    """The spec that a rule gives a parameter: (lists of axes by dim, None) or (None, code)."""
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
    """What every rank holds: for each coordinate of the mesh, row-major, the runs of each dim. Axes cut one after the other,
    major first, and each segment is cut by itself."""
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
    """The codes of all that speaks against a spec with one entry a dim. Experts are dealt out whole, and of a fused dim each
    segment is cut by itself, whatever its whole size."""
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
    """What becomes of each parameter: ({path: entry}, the codes of what is wrong, a set for each parameter that is)."""
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
    for index, (_, _, rule) in enumerate(rules):  # a spec that no tensor can have is wrong wherever it stands
        axes = spec_axes(rule.get("spec", []))
        if index not in [governor[0] for governor in governs.values() if governor] and len(axes) != len(set(axes)):
            errors.append({"TP5004"})
    return table, errors


def tie(model, table):
    """Makes ends of a tie without a rule follow the first that has one; returns whether rules cut two ends unlike, both of them
    as a tensor can be cut."""
    unlike = False
    for group in model.get("tied", []):
        ruled = [path for path in group if table[path]["rule"] is not None]
        good = [table[path] for path in ruled if table[path]["spec"] is not None]
        unlike |= any((one["spec"], one["segments"]) != (good[0]["spec"], good[0]["segments"]) for one in good)
        for path in group:
            if ruled and table[path]["rule"] is None:
                table[path] |= table[ruled[0]] | {"reason": "tied"}
    return unlike


# --- what the manifest says -------------------------------------------------------------------------------------------


def placements(shape, spec, segments, mesh):
    """Torch's view of a spec by mesh axis, or None where it has no word for it: of segments that torch.chunk would not make.
    Torch cuts in the order of the mesh, so that an axis that stands further left there and cuts later cuts each of the pieces
    to be: a strided shard, as one of packed segments is. Where all pieces are of one size, and no packed dim is cut again by
    an axis further left, what these words make of the tensor is what the spec makes of it."""
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
    """Fails where torch would cut by these placements otherwise than the spec does."""
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
    """The manifest's fields, from what every rank holds."""
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
    """The expectation: `status`; of a wrong plan `causes`, sets of codes of which each has one that is reported, and no others
    are, but for those in `also`; of a right one what its manifest says, and the `warnings` that are known (TP4004, TP4005)."""
    wrong = read_errors(plan)
    if wrong:
        return {"status": 2 if wrong & UNREADABLE else 1, "phase": "read", "causes": [{code} for code in wrong]}
    governs, counts, wrong, warnings = match(model, plan)
    if wrong:
        # Rules in a block that is nowhere match nothing: that need not be said, and others are looked at when it is there.
        hidden = wrong & {"TP4001"} if "TP4009" in wrong else set()
        return {"status": 1, "phase": "match", "causes": [{code} for code in wrong - hidden], "also": hidden}
    table, causes = infer(model, plan, governs)
    if tie(model, table):
        causes.append({"TP5011"})
    if sum(bool(cause & SIZES) for cause in causes) > 1:  # findings that another size of one axis mends are one finding
        either = {"TP5001"}.union(*(cause & SIZES for cause in causes))
        causes = [cause | either if cause & SIZES else cause for cause in causes]
    if causes:
        return {"status": 1, "phase": "infer", "causes": causes}
    return {"status": 0, "phase": "manifest", "causes": [], "warnings": warnings} | describe(model, plan, table, counts)
