"""Encodes a trace as the tables of schemas/model.schema.json: unused values and sizes are removed, the rest
renumbered.

strings   operations, paths, keywords and dtypes; `s#` below is an index into them
shapes    [2, 16, 128]
sizes     ["size", value, dim], or [operation, operand ...] (add sub mul floordiv mod neg); an operand is a number or [entry]
values    [shape, dtype s#, 1 if a gradient is required]
leaves    [value, "input" | "param" | "buffer" | "constant", path or name s#]
nodes     [operation s#, [argument ...], [keyword s#, argument, ...], [result ...]]
          ["@enter" s#, module s#, number of positional arguments, 1 under no_grad, [[place, outside, inside] ...]]
          ["@exit" s#, module s#, [[place, inside, outside] ...]]
guards    [eq ne lt le gt ge, operand, operand, result]
output    the value from which the loss is computed, or a list of several

A place is the position of a value in arguments or results: [0], ["hidden_states"], ["position_embeddings", 0], [].
For an argument passed by keyword, the fourth entry is the position of its parameter, if it may be positional.

An argument that is null, a boolean, a number or a text is written as such. All others are lists: [value], ["e", entry
of sizes], ["t", ...] a tuple, ["s", start, stop, step], ["x"] an ellipsis, ["d", dtype], ["f", "inf" | "-inf" |
"nan"], ["h", number] read from a tensor, ["o", kind] anything else.

An in-place operation has its target as first argument and gives it a new value. If the target is a view, a node for
each ancestor up to the owner of the storage follows: a __setitem__ or the inverse view. A node without results reads
data to the host.
"""

import json

from .recording import BUFFER, INPUT, PARAMETER, intern_size


def tables(recording, settings):
    """Returns the field `graph`; `settings` are its first fields (mode, batch and so on)."""
    guards = [
        [name, intern_size(recording, a), intern_size(recording, b), result]
        for (name, a, b), result in recording.guards.items()
    ]
    nodes = _needed(recording, guards)
    values, sizes = _used(recording, nodes, guards)
    value_at = {old: new for new, old in enumerate(values)}
    size_at = {old: new for new, old in enumerate(sizes)}
    strings, shapes = {}, {}

    def name(text):
        return strings.setdefault(text, len(strings))

    def operand(entry):
        return [size_at[entry[0]]] if type(entry) is list else entry

    def argument(entry):
        if type(entry) is not list:
            return entry
        if type(entry[0]) is int:
            return [value_at[entry[0]]]
        if entry[0] in ("t", "s"):
            return [entry[0], *[argument(e) for e in entry[1:]]]
        return ["e", size_at[entry[1]]] if entry[0] == "e" else entry

    def row(node):
        if node[0] in ("@enter", "@exit"):
            pairs = [[place, value_at[a], value_at[b], *position] for place, a, b, *position in node[-1]]
            return [name(node[0]), name(node[1]), *node[2:-1], pairs]
        op, args, kwargs, results = node
        keywords = [name(k) if i % 2 == 0 else argument(k) for i, k in enumerate(kwargs)]
        return [name(op), [argument(a) for a in args], keywords, [value_at[r] for r in results]]

    def size(entry):
        if entry[0] == "size":
            return ["size", value_at[entry[1]], entry[2]]
        return [entry[0], *[operand(e) for e in entry[1:]]]

    rows = [row(node) for node in nodes]
    described = [recording.values[v] for v in values]
    outputs = [value_at[v] for v in recording.outputs]
    made = {
        **settings,
        "strings": strings,
        "shapes": shapes,
        "sizes": [size(recording.sizes[s]) for s in sizes],
        "values": [[shapes.setdefault(v.shape, len(shapes)), name(v.dtype), int(v.requires_grad)] for v in described],
        "leaves": [[value_at[v], kind, name(path)] for v, kind, path in recording.leaves if v in value_at],
        "nodes": rows,
        "guards": [[g[0], operand(g[1]), operand(g[2]), g[3]] for g in guards],
        "output": outputs[0] if len(outputs) == 1 else outputs,
    }
    return made | {"strings": list(strings), "shapes": [list(s) for s in shapes]}


def text(graph):
    """Returns the field as text, one line for each table."""
    lines = [
        f'  "{key}": {json.dumps(value, separators=(",", ":"), ensure_ascii=False)}' for key, value in graph.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n }"


def _values_in(argument):
    if type(argument) is list:
        if type(argument[0]) is int:
            yield argument[0]
        elif argument[0] in ("t", "s"):
            for part in argument[1:]:
                yield from _values_in(part)


def _sizes_in(argument):
    if type(argument) is list:
        if argument[0] == "e":
            yield argument[1]
        elif argument[0] in ("t", "s"):
            for part in argument[1:]:
                yield from _sizes_in(part)


def _arguments(node):
    yield from node[1]
    yield from node[2][1::2]


def _needed(recording, guards):
    """Returns the nodes, without those that compute unused values from constants only. Unused nodes with other
    operands stay, because they can fail."""
    depends = {v for v, kind, _ in recording.leaves if kind in (INPUT, PARAMETER, BUFFER)}
    for node in recording.nodes:
        if node[0] == "@enter" or node[0] == "@exit":
            depends.update(after for _, before, after, *_ in node[-1] if before in depends)
        elif any(v in depends for a in _arguments(node) for v in _values_in(a)):
            depends.update(node[3])
    used = set(recording.outputs)

    def use_size(number):
        entry = recording.sizes[number]
        if entry[0] == "size":
            used.add(entry[1])
        else:
            for part in entry[1:]:
                if type(part) is list:
                    use_size(part[0])

    for guard in guards:
        for part in guard[1:3]:
            if type(part) is list:
                use_size(part[0])
    kept = []
    for node in reversed(recording.nodes):
        if node[0] == "@enter" or node[0] == "@exit":
            used.update(v for row in node[-1] for v in row[1:3])
        else:
            inputs = [v for a in _arguments(node) for v in _values_in(a)]
            if not any(r in used or r in depends for r in node[3]) and not any(v in depends for v in inputs):
                continue
            used.update(inputs)
            for argument in _arguments(node):
                for number in _sizes_in(argument):
                    use_size(number)
        kept.append(node)
    kept.reverse()
    return kept


def _used(recording, nodes, guards):
    """Returns the used values and entries of `sizes`, each in order."""
    values, sizes = set(recording.outputs), set()

    def use_size(number):
        if number in sizes:
            return
        sizes.add(number)
        entry = recording.sizes[number]
        if entry[0] == "size":
            values.add(entry[1])
        else:
            for part in entry[1:]:
                if type(part) is list:
                    use_size(part[0])

    for guard in guards:
        for part in guard[1:3]:
            if type(part) is list:
                use_size(part[0])
    for node in nodes:
        if node[0] == "@enter" or node[0] == "@exit":
            values.update(v for row in node[-1] for v in row[1:3])
            continue
        values.update(node[3])
        for argument in _arguments(node):
            values.update(_values_in(argument))
            for number in _sizes_in(argument):
                use_size(number)
    values.update(v for v, kind, _ in recording.leaves if kind == INPUT)
    return sorted(values), sorted(sizes)
