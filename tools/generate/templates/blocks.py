"""Splits a traced graph into blocks: the operations before the layers, each layer, and the operations after them.

A block is {"values", "sizes", "leaves", "nodes", "guards"} as in the field `graph` (schemas/model.schema.json), with
two differences. Names and shapes are inlined, and an index into the graph becomes a text:

- "$v3": value 3 of this block; "$h3": value 3 of the block before the layers
- "$c": the output of the preceding layer
- "$s3": entry 3 of this block's `sizes`; "$g3": of the block before the layers
- `#` in a path: the index of the layer

An activation is one node ["@activation", input, output]; a separate table has its operations.
"""

import re

LAYER = re.compile(r"^(.*\.layers\.)(\d+)$")


class Unlike(Exception):
    """Traces that no template can represent."""


def split(graph, activations):
    """Returns (head, [layers], tail) as blocks. `activations` are the paths of the activation modules. Raises Unlike
    if an operation runs between the layers."""
    strings, nodes = graph["strings"], graph["nodes"]
    starts = [i for i, n in enumerate(nodes) if strings[n[0]] == "@enter" and LAYER.match(strings[n[1]])]
    ends = [i + 1 for i, n in enumerate(nodes) if strings[n[0]] == "@exit" and LAYER.match(strings[n[1]])]
    if ends[:-1] != starts[1:]:
        raise Unlike("an operation is between the layers")
    bounds = [0, *starts, ends[-1], len(nodes)]
    block_of = [max(b for b in range(len(bounds) - 1) if bounds[b] <= i) for i in range(len(nodes))]
    home = _homes(graph, block_of)
    sizes = [None] * len(graph["sizes"])  # block of each entry
    for number, entry in enumerate(graph["sizes"]):
        if entry[0] == "size":
            sizes[number] = home[entry[1]]
        else:
            sizes[number] = max(sizes[part[0]] for part in entry[1:] if type(part) is list)
    made = [_Block(graph, b, home, sizes, activations) for b in range(len(bounds) - 1)]
    for number, leaf in enumerate(graph["leaves"]):
        made[home[leaf[0]]].add_leaf(leaf)
    for number, entry in enumerate(graph["sizes"]):
        made[sizes[number]].add_size(number, entry)
    for b, node in zip(block_of, nodes):
        made[b].add_node(node)
    for guard in graph["guards"]:
        made[max(sizes[part[0]] for part in guard[1:3] if type(part) is list)].add_guard(guard)
    tail = made[-1]
    tail.output = tail.reference(graph["output"])
    return made[0], made[1:-1], tail


def _homes(graph, block_of):
    """Returns the block of every value: the one that computes it; for a leaf, the one that uses it first."""
    strings, home = graph["strings"], [None] * len(graph["values"])
    leaves = {leaf[0] for leaf in graph["leaves"]}
    for b, node in zip(block_of, graph["nodes"]):
        if strings[node[0]][0] == "@":
            for row in node[-1]:
                home[row[1]] = b if row[1] in leaves and home[row[1]] is None else home[row[1]]
                home[row[2]] = b
            continue
        for value in _values(node[1]) + _values(node[2]):
            if value in leaves and home[value] is None:
                home[value] = b
        for value in node[3]:
            home[value] = b
    return home


def _values(argument):
    if type(argument) is not list:
        return []
    if len(argument) == 1 and type(argument[0]) is int:
        return list(argument)
    return [value for part in argument for value in _values(part)]


class _Block:
    def __init__(self, graph, number, home, size_home, activations):
        self.graph, self.number, self.home, self.size_home = graph, number, home, size_home
        self.activations, self.inside = activations, None
        self.strings = graph["strings"]
        self.base = next(m[1] for s in self.strings if (m := LAYER.match(s)))  # "model.layers."
        hidden = self._hidden()
        own = [v for v, b in enumerate(home) if b == number and v not in hidden]
        self.at = {value: k for k, value in enumerate(own)}
        self.values = [self._value(v) for v in own]
        self.size_at, self.sizes, self.leaves, self.nodes, self.guards = {}, [], [], [], []
        self.carried, self.output = {}, None

    def json(self):
        return {k: getattr(self, k) for k in ("values", "sizes", "leaves", "nodes", "guards")}

    def _hidden(self):
        """Returns the values that exist only inside activations."""
        found, inside = set(), None
        for node in self.graph["nodes"]:
            name = self.strings[node[0]]
            if name == "@enter" and self.strings[node[1]] in self.activations:
                inside = {row[2] for row in node[-1]}
            elif name == "@exit" and self.strings[node[1]] in self.activations:
                found |= inside | {row[1] for row in node[-1]}
                inside = None
            elif inside is not None:
                inside.update(node[3] if name[0] != "@" else [])
        return found

    def _value(self, value):
        shape, dtype, grad = self.graph["values"][value]
        return [self.graph["shapes"][shape], self.strings[dtype], grad]

    def path(self, path):
        base = self.base
        if not path.startswith(base):
            return path
        number, dot, rest = path[len(base) :].partition(".")
        if int(number) != self.number - 1:
            raise Unlike(f"layer {self.number - 1} refers to {path}")
        return f"{base}#{dot}{rest}"

    def reference(self, value):
        b = self.home[value]
        if b == self.number:
            return f"$v{self.at[value]}"
        if b == 0:
            return f"$h{self.value_in_head(value)}"
        if b == self.number - 1:
            self.carried[value] = True
            if len(self.carried) > 1:
                raise Unlike("a layer passes more than one value to the next")
            return "$c"
        raise Unlike("a layer uses a value from before the previous layer")

    def value_in_head(self, value):
        return sum(1 for v in range(value) if self.home[v] == 0)

    def size(self, number):
        b = self.size_home[number]
        if b == self.number:
            return f"$s{self.size_at[number]}"
        if b == 0:
            return f"$g{sum(1 for k in range(number) if self.size_home[k] == 0)}"
        raise Unlike("a layer uses a size of another layer")

    def operand(self, part):
        return [self.size(part[0])] if type(part) is list else part

    def add_leaf(self, leaf):
        self.leaves.append([self.reference(leaf[0]), leaf[1], self.path(self.strings[leaf[2]])])

    def add_size(self, number, entry):
        self.size_at[number] = len(self.sizes)
        if entry[0] == "size":
            self.sizes.append(["size", self.reference(entry[1]), entry[2]])
        else:
            self.sizes.append([entry[0], *[self.operand(part) for part in entry[1:]]])

    def add_guard(self, guard):
        self.guards.append([guard[0], self.operand(guard[1]), self.operand(guard[2]), guard[3]])

    def argument(self, argument):
        if type(argument) is not list:
            return argument
        if type(argument[0]) is int:
            return [self.reference(argument[0])]
        if argument[0] in ("t", "s"):
            return [argument[0], *[self.argument(part) for part in argument[1:]]]
        return ["e", self.size(argument[1])] if argument[0] == "e" else argument

    def add_node(self, node):
        name = self.strings[node[0]]
        if name[0] == "@":
            path = self.strings[node[1]]
            if path in self.activations:
                return self._activation(name, node)
            rows = [[row[0], self.reference(row[1]), self.reference(row[2]), *row[3:]] for row in node[-1]]
            self.nodes.append([name, self.path(path), *node[2:-1], rows])
        elif self.inside is None:
            keywords = [self.strings[k] if i % 2 == 0 else self.argument(k) for i, k in enumerate(node[2])]
            self.nodes.append(
                [name, [self.argument(a) for a in node[1]], keywords, [self.reference(v) for v in node[3]]]
            )

    def _activation(self, name, node):
        (row,) = node[-1]
        if name == "@enter":
            self.inside = [self.path(self.strings[node[1]]), self.reference(row[1])]
            if [row[0], node[2], node[3]] != [[0], 1, 0]:
                raise Unlike("an activation has unexpected arguments")
        else:
            self.nodes.append(["@activation", *self.inside, self.reference(row[2])])
            self.inside = None


def activation(graph, path):
    """Returns the operations of the activation at `path`: {"values": [[dtype, requires grad], ...], "nodes"}. "$a0"
    is its input and the last value its output. Raises Unlike if a value has another shape than the input."""
    strings, nodes = graph["strings"], graph["nodes"]
    at = [i for i, n in enumerate(nodes) if strings[n[0]][0] == "@" and strings[n[1]] == path]
    (enter, *_), (leave, *_) = nodes[at[0]][-1], nodes[at[1]][-1]
    number = {enter[2]: 0}
    for node in nodes[at[0] + 1 : at[1]]:
        for value in node[3]:
            number[value] = len(number)
    shapes = {graph["values"][v][0] for v in number}

    def rewrite(argument):
        if type(argument) is not list:
            return argument
        if type(argument[0]) is int:
            return [f"$a{number[argument[0]]}"]
        if argument[0] == "e":
            raise Unlike("an activation computes with sizes")
        return [argument[0], *[rewrite(part) for part in argument[1:]]]

    if len(shapes) != 1 or number[leave[1]] != len(number) - 1:
        raise Unlike("an activation changes the shape")
    return {
        "values": [[strings[graph["values"][v][1]], graph["values"][v][2]] for v in number],
        "nodes": [
            [
                strings[n[0]],
                [rewrite(a) for a in n[1]],
                [strings[k] if i % 2 == 0 else rewrite(k) for i, k in enumerate(n[2])],
                [f"$a{number[v]}" for v in n[3]],
            ]
            for n in nodes[at[0] + 1 : at[1]]
        ],
    }
