"""Models with operations, built without a framework: functions that add to one document (schemas/model.schema.json).

Values are ids, sizes are global. The operations of a module are between `enter` and `leave`, which give its arguments
and results new ids, as the tracer does.
"""

BATCH, SEQUENCE, HIDDEN, INNER, VOCABULARY, HEADS = 2, 24, 24, 48, 48, 12


def new_model(dtype="float32"):
    return {
        "format": "tpplan.model/1",
        "name": "M",
        "framework": "torch",
        "modules": [{"path": "", "type": "M"}],
        "tied": [],
        "graph": {"strings": [], "shapes": [], "sizes": [], "values": [], "leaves": [], "nodes": [], "output": None},
        "dtype": dtype,
    }


def _number(table, item):
    if item not in table:
        table.append(item)
    return table.index(item)


def text(model, word):
    return _number(model["graph"]["strings"], word)


def value(model, shape, grad=True, dtype=None):
    graph = model["graph"]
    graph["values"].append([_number(graph["shapes"], list(shape)), text(model, dtype or model["dtype"]), int(grad)])
    return len(graph["values"]) - 1


def shape_of(model, id_):
    return list(model["graph"]["shapes"][model["graph"]["values"][id_][0]])


def has_grad(model, id_):
    return bool(model["graph"]["values"][id_][2])


def given(model, name, shape, dtype=None):
    """Adds an input of the model."""
    id_ = value(model, shape, False, dtype)
    model["graph"]["leaves"].append([id_, "input", text(model, name)])
    return id_


def tokens(model):
    return given(model, "tokens", [BATCH, SEQUENCE], "int64")


def hidden(model, name="x"):
    return given(model, name, [BATCH, SEQUENCE, HIDDEN])


def module(model, path, type_="Part", **members):
    for known in model["modules"]:
        if known["path"] == path:
            return known
    model["modules"].append({"path": path, "type": type_, **members})
    return model["modules"][-1]


def weight(model, path, name, shape, type_="Part", grad=True, **members):
    """Adds a parameter of the module at `path`, and returns its value."""
    owner = module(model, path, type_)
    owner.setdefault("parameters", {})[name] = {"shape": list(shape), "dtype": model["dtype"], **members}
    id_ = value(model, shape, grad)
    model["graph"]["leaves"].append([id_, "param", text(model, f"{path}.{name}")])
    return id_


def buffer(model, path, name, shape):
    owner = module(model, path)
    owner.setdefault("buffers", {})[name] = {"shape": list(shape), "dtype": model["dtype"]}
    id_ = value(model, shape, False)
    model["graph"]["leaves"].append([id_, "buffer", text(model, f"{path}.{name}")])
    return id_


def size(model, id_, dim):
    """Returns the size of a dim as a traced size."""
    sizes = model["graph"]["sizes"]
    return ["e", _number(sizes, ["size", id_, dim])]


def _ids(argument):
    """Returns the values in an argument of a node."""
    if not isinstance(argument, list):
        return []
    if argument and isinstance(argument[0], int):
        return argument[:1]
    return [id_ for part in argument for id_ in _ids(part)]


def op(model, name, args, shape, dtype=None, grad=None, **keywords):
    """Adds one operation; an argument that is a value is a list of one id."""
    graph = model["graph"]
    out = value(model, shape, any(has_grad(model, i) for i in _ids(list(args))) if grad is None else grad, dtype)
    words = [part for key, argument in keywords.items() for part in (text(model, key), argument)]
    graph["nodes"].append([text(model, name), list(args), words, [out]])
    return out


def enter(model, path, *arguments, names=None):
    """Enters a module with these values and returns their ids inside. `names`: keywords of arguments that are passed by
    keyword.
    """
    inside = [value(model, shape_of(model, a), has_grad(model, a), _dtype(model, a)) for a in arguments]
    places = [[name] for name in names] if names else [[i] for i in range(len(arguments))]
    module(model, path)
    model["graph"]["nodes"].append(
        [
            text(model, "@enter"),
            text(model, path),
            0 if names else len(arguments),
            0,
            [[place, a, i] for place, a, i in zip(places, arguments, inside)],
        ]
    )
    return inside if len(inside) != 1 else inside[0]


def _dtype(model, id_):
    return model["graph"]["strings"][model["graph"]["values"][id_][1]]


def leave(model, path, result):
    out = value(model, shape_of(model, result), has_grad(model, result), _dtype(model, result))
    model["graph"]["nodes"].append([text(model, "@exit"), text(model, path), [[[], result, out]]])
    return out


def ends(model, *outputs):
    """Returns the model with these outputs."""
    graph = model["graph"]
    graph["output"] = outputs[0] if len(outputs) == 1 else list(outputs)
    return {key: member for key, member in model.items() if key != "dtype"}


# ---- modules ----


def linear(model, path, x, out, bias=False, segments=None, grad=True):
    wide = shape_of(model, x)[-1]
    members = {"segments": {"out": segments}} if segments else {}
    known = {leaf[2]: leaf[0] for leaf in model["graph"]["leaves"]}
    w = known.get(text(model, f"{path}.weight"))
    if w is None:
        w = weight(model, path, "weight", [out, wide], "Linear", grad, **members)
    b = weight(model, path, "bias", [out], "Linear", grad, **members) if bias else None
    inner = enter(model, path, x)
    args = [[inner], [w]] + ([[b]] if bias else [])
    return leave(model, path, op(model, "linear", args, [*shape_of(model, x)[:-1], out]))


def embedding(model, path, ids, wide=HIDDEN, rows=VOCABULARY):
    w = weight(model, path, "weight", [rows, wide], "Embedding")
    inner = enter(model, path, ids)
    return leave(model, path, op(model, "embedding", [[inner], [w]], [*shape_of(model, ids), wide]))


def scale(model, path, x, grad=True, type_="RMSNorm"):
    """Adds a norm without its reduction: an elementwise product with the weight."""
    w = weight(model, path, "weight", shape_of(model, x)[-1:], type_, grad)
    inner = enter(model, path, x)
    return leave(model, path, op(model, "mul", [[w], [inner]], shape_of(model, x)))


def layer_norm(model, path, x):
    wide = shape_of(model, x)[-1]
    w, b = (weight(model, path, name, [wide], "LayerNorm") for name in ("weight", "bias"))
    inner = enter(model, path, x)
    return leave(model, path, op(model, "layer_norm", [[inner], ["t", wide], [w], [b], 1e-5], shape_of(model, x)))


def wrapped(model, path, x, body, names=None):
    """Adds a module around the operations of `body(model, inner)`."""
    return leave(model, path, body(model, enter(model, path, x, names=names)))


def relu(model, x):
    return op(model, "relu", [[x]], shape_of(model, x))


def add(model, a, b):
    return op(model, "add", [[a], [b]], shape_of(model, a))


def mean(model, x, dim=-1):
    shape = shape_of(model, x)
    shape[dim] = 1
    return op(model, "mean", [[x], dim], shape, keepdim=True)


def chunks(model, x, count, dim=-1):
    """Adds a chunk operation and returns its results."""
    shape = shape_of(model, x)
    shape[dim] //= count
    outs = [value(model, shape, has_grad(model, x)) for _ in range(count)]
    model["graph"]["nodes"].append([text(model, "chunk"), [[x], count, dim], [], outs])
    return outs


def cat(model, parts, dim):
    shape = shape_of(model, parts[0])
    shape[dim] = sum(shape_of(model, p)[dim] for p in parts)
    return op(model, "cat", [["t", *[[p] for p in parts]], dim], shape)


def view(model, x, *sizes):
    """Adds a view. `sizes` are numbers, or pairs (traced size, number)."""
    shape = [s[1] if isinstance(s, tuple) else s for s in sizes]
    asked = [s[0] if isinstance(s, tuple) else s for s in sizes]
    if -1 in shape:
        total = 1
        for s in shape_of(model, x):
            total *= s
        for s in shape:
            total //= s if s != -1 else 1
        shape[shape.index(-1)] = total
    return op(model, "view", [[x], ["t", *asked]], shape)


def mlp(model, path, x, **kwargs):
    up = linear(model, f"{path}.up", x, INNER, **kwargs)
    return linear(model, f"{path}.down", relu(model, up), HIDDEN)
