"""Expresses the numbers at the same position of several traces as one expression of the config fields.

An expression is a text such as "=num_attention_heads*head_dim". Products and quotients bind tighter than sums;
evaluation is from the left. The prefix "~" marks an expression that may be a fraction ("~head_dim**-0.5",
"~rms_norm_eps").
"""

import itertools

from blocks import Unlike


class Solver:
    """Finds expressions. `fields` lists the config fields of each trace."""

    def __init__(self, fields):
        self.fields = fields
        whole = [name for name in fields[0] if all(type(f[name]) is int for f in fields)]
        part = [name for name in fields[0] if all(type(f[name]) in (int, float) for f in fields)]
        self.whole, self.fractions = {}, {}
        columns = {name: tuple(f[name] for f in fields) for name in whole}
        for text, column in _expressions(columns):
            self.whole.setdefault(column, text)
        for name in part:
            column = tuple(f[name] for f in fields)
            self.fractions.setdefault(tuple(map(float, column)), name)
        for name in part:
            column = tuple(f[name] for f in fields)
            for power in (-0.5, 0.5, -1):
                if all(value > 0 for value in column):
                    self.fractions.setdefault(tuple(value**power for value in column), f"{name}**{power}")

    def number(self, column, place):
        if len(set(column)) == 1:
            return column[0]
        if all(type(value) is int for value in column):
            if column in self.whole:
                return "=" + self.whole[column]
        elif tuple(map(float, column)) in self.fractions:
            return "~" + self.fractions[tuple(map(float, column))]
        raise Unlike(f"{place}: no expression of the fields equals {list(column)}")

    def merge(self, trees, place=""):
        """Returns one tree for all trees, with differing numbers replaced by expressions. Raises Unlike if there is
        none."""
        first = trees[0]
        if any(type(t) is not type(first) for t in trees) and not all(type(t) in (int, float) for t in trees):
            raise Unlike(f"{place}: {trees}")
        if type(first) is dict:
            if any(t.keys() != first.keys() for t in trees):
                raise Unlike(f"{place}: different fields")
            return {key: self.merge([t[key] for t in trees], f"{place}.{key}") for key in first}
        if type(first) is list:
            if len({len(t) for t in trees}) != 1:
                raise Unlike(f"{place}: {[len(t) for t in trees]} items: {str(trees[0])[:200]} {str(trees[1])[:200]}")
            return [self.merge(items, f"{place}[{k}]") for k, items in enumerate(zip(*trees))]
        if type(first) in (int, float):
            return self.number(tuple(trees), place)
        if all(t == first for t in trees):
            return first
        if type(first) is str and all(t == f["dtype"] for t, f in zip(trees, self.fields)):
            return "$dtype"
        raise Unlike(f"{place}: {sorted(set(map(str, trees)))}")


def _expressions(columns):
    """Yields (text, column) of candidate expressions for sizes, simplest first."""

    def combine(function, *names):
        made = [function(*row) for row in zip(*(columns[name] for name in names))]
        return tuple(made) if all(value is not None for value in made) else None

    def quotient(a, b):
        return a // b if b and a % b == 0 else None

    yield from columns.items()
    for a in columns:
        for text, function in (
            (f"{a}/2", lambda x: quotient(x, 2)),
            (f"2*{a}", lambda x: 2 * x),
            (f"{a}-1", lambda x: x - 1),
            (f"{a}+1", lambda x: x + 1),
            (f"3*{a}", lambda x: 3 * x),
            (f"4*{a}", lambda x: 4 * x),
            (f"0-{a}", lambda x: -x),
        ):
            if (column := combine(function, a)) is not None:
                yield text, column
    for a, b in itertools.combinations_with_replacement(columns, 2):
        yield f"{a}*{b}", combine(lambda x, y: x * y, a, b)
    for a, b in itertools.permutations(columns, 2):
        for text, function in (
            (f"{a}/{b}", quotient),
            (f"{a}-{b}", lambda x, y: x - y),
            (f"{a}+{b}", lambda x, y: x + y),
            (f"{a}-{b}/2", lambda x, y: x - y // 2 if y % 2 == 0 else None),
            (f"{a}/{b}/2", lambda x, y: quotient(x, 2 * y)),
            (f"3*{a}/{b}", lambda x, y: quotient(3 * x, y)),
        ):
            if (column := combine(function, a, b)) is not None:
                yield text, column
    for a, b, c in itertools.combinations(columns, 3):
        yield f"{a}*{b}*{c}", combine(lambda x, y, z: x * y * z, a, b, c)
    for a, b, c in itertools.permutations(columns, 3):
        yield f"{a}*{c}+2*{b}*{c}", combine(lambda x, y, z: (x + 2 * y) * z, a, b, c)
        yield f"{a}*{c}+{b}*{c}", combine(lambda x, y, z: (x + y) * z, a, b, c)
