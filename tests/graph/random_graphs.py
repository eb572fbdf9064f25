"""Random valid graphs with rare features of the format: names of any characters, values used outside the module that computes them,
arguments in any order, sizes of sizes."""

NAMES = (
    "h",
    "x",
    "linear",
    "to",
    "s1",
    "None",
    "with",
    "a.b",
    "`q`",
    "it's",
    "##[error]",
    "sp ace",
    "ü\u202e",
    "\x1b\n\\",
    "",
    "0",
    "1e5",
)
KINDS = ("input", "param", "buffer", "constant")
DTYPES = ("float32", "int64", "bfloat16", "odd[dtype]")
OPS = ("linear", "add", "__getitem__", "return", "size", "jax::op", "9")
SIZES = ("add", "sub", "mul", "min", "max", "neg", "abs", "local")
GUARDS = ("eq", "ne", "lt", "le", "gt", "ge")


def a_name(random, used):
    """Returns a name that the model does not use."""
    while (name := random.choice(NAMES) + "x" * random.randrange(3)) in used or not name or "." in name:
        pass
    used.add(name)
    return name


class Maker:
    def __init__(self, random):
        self.random, self.strings, self.shapes = random, [], [[], [2], [2, 3], [4, 2, 3]]
        self.values, self.leaves, self.sizes, self.nodes, self.guards = [], [], [], [], []
        self.known, self.known_sizes, self.entered = [], [], []
        self.modules = [{"path": "", "type": "M"}]
        used = set()
        for i in range(3):
            path = ".".join(a_name(random, used) for _ in range(random.randrange(1, 3)))
            self.modules.append(
                {"path": path, "type": random.choice(("Linear", "M'x", "")), "parameters": {}, "buffers": {}}
            )
        self.paths = [m["path"] for m in self.modules]

    def string(self, text):
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def value(self, shape=None, dtype=None, grad=None):
        random = self.random
        shape = random.randrange(len(self.shapes)) if shape is None else shape
        self.values.append(
            [shape, self.string(dtype or random.choice(DTYPES)), random.randrange(2) if grad is None else grad]
        )
        return len(self.values) - 1

    def leaf(self):
        kind = self.random.choice(KINDS)
        path = self.random.choice(NAMES)
        if kind == "param":
            shape = self.random.randrange(len(self.shapes))
            module = self.random.choice(self.modules[1:])
            name = self.random.choice(("w", "b", "shape"))
            known = module["parameters"].setdefault(name, {"shape": self.shapes[shape], "dtype": "float32"})
            value = self.value(
                self.shapes.index(known["shape"]), self.random.choice(("float32", "float32", "bfloat16"))
            )
            path = f"{module['path']}.{name}"
        else:
            value = self.value()
        self.leaves.append([value, kind, self.string(path)])
        self.known.append(value)

    def size(self):
        random = self.random
        with_dims = [v for v in self.known if self.shapes[self.values[v][0]]]
        if not self.known_sizes or random.random() < 0.5:
            if not with_dims:
                return
            value = random.choice(with_dims)
            self.sizes.append(["size", value, random.randrange(len(self.shapes[self.values[value][0]]))])
        else:
            op = random.choice(SIZES)
            operands = [random.choice(([random.choice(self.known_sizes)], random.randrange(-2, 9))) for _ in range(2)]
            self.sizes.append([op, *(operands[:1] if op in ("neg", "abs") else operands)])
        self.known_sizes.append(len(self.sizes) - 1)

    def argument(self, depth=0):
        random = self.random
        choices = [None, True, False, -3, 0, 7, 2.0, -1e-05, 1e300, "it's", "a\n`b", ["x"], ["d", "float32"], ["d", "odd"],
                   ["f", "inf"], ["f", "-inf"], ["f", "nan"], ["h", 3], ["h", -0.5], ["o", "dev'ice"]]  # fmt: skip
        if self.known_sizes:
            choices += [["e", random.choice(self.known_sizes)] for _ in range(6)]
        choices += [[random.choice(self.known)] for _ in range(12)] if self.known else []
        if depth < 3:
            choices += [["t", *[self.argument(depth + 1) for _ in range(random.randrange(4))]] for _ in range(2)]
            choices.append(["s", *[self.argument(depth + 1) for _ in range(3)]])
        return random.choice(choices)

    def operation(self):
        random = self.random
        op = random.choice(OPS)
        if op == "__getitem__" and self.known:
            arguments = [[random.choice(self.known)], ["t", *[self.argument(1) for _ in range(random.randrange(4))]]]
        else:
            arguments = [self.argument() for _ in range(random.randrange(4))]
        keywords = [
            part
            for name in random.sample(NAMES, random.choice((0, 0, 1, 2)))
            for part in (self.string(name), self.argument())
        ]
        results = [self.value() for _ in range(random.randrange(3))]
        self.nodes.append([self.string(op), arguments, keywords, results])
        self.known += results

    def crossings(self, count, is_exit):
        random, rows, results = self.random, [], []
        for _ in range(count):
            before = random.choice(self.known)
            shape, dtype, grad = self.values[before]
            if random.random() < 0.2:
                dtype, grad = self.string(random.choice(DTYPES)), random.randrange(2)
            place = [random.choice((random.randrange(4), random.choice(NAMES)))]
            place += [0] * random.choice((0, 0, 0, 1, 2))
            if is_exit and random.random() < 0.3:
                place = []
            self.values.append([shape, dtype, grad])
            row = [place, before, len(self.values) - 1]
            if random.random() < 0.2:
                row.append(random.randrange(5))
            rows.append(row)
            results.append(row[2])
        self.known += results
        return rows

    def enter(self):
        path = self.random.choice(self.paths)
        self.entered.append(path)
        rows = self.crossings(self.random.randrange(4) if self.known else 0, False)
        self.nodes.append(
            [
                self.string("@enter"),
                self.string(path),
                self.random.choice((0, 1, 2, 3, 9)),
                self.random.randrange(2),
                rows,
            ]
        )

    def exit(self):
        path = self.entered.pop()
        rows = self.crossings(self.random.randrange(3) if self.known else 0, True)
        self.nodes.append([self.string("@exit"), self.string(path), rows])


def random_graph(random, length=30):
    """Returns a model whose graph has about `length` nodes."""
    maker = Maker(random)
    for _ in range(length):
        step = random.random()
        if step < 0.15:
            maker.leaf()
        elif step < 0.35:
            maker.size()
        elif step < 0.45 and len(maker.entered) < 5:
            maker.enter()
        elif step < 0.55 and maker.entered:
            maker.exit()
        elif step < 0.6 and maker.known_sizes:
            operands = [random.choice(([random.choice(maker.known_sizes)], 2)) for _ in range(2)]
            maker.guards.append([random.choice(GUARDS), *operands, random.random() < 0.5])
        else:
            maker.operation()
    while maker.entered:
        maker.exit()
    graph = {
        "strings": maker.strings,
        "shapes": maker.shapes,
        "sizes": maker.sizes,
        "values": maker.values,
        "leaves": maker.leaves,
        "nodes": maker.nodes,
        "guards": maker.guards,
        "output": random.choice((random.choice(maker.known), random.sample(maker.known, 2)))
        if len(maker.known) > 1
        else [],
        "rules": {"my::op": "a b -> b a"} if random.random() < 0.3 else {},
    }
    settings = {"mode": "train", "dtype": "bfloat16", "batch": 2, "attention": "it's"} if random.random() < 0.5 else {}
    return {
        "format": "tpplan.model/1",
        "name": "R",
        "framework": "torch",
        "modules": maker.modules,
        "graph": settings | graph,
    }
