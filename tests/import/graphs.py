"""Compares graphs of operations independently of the ids of values, sizes, shapes and texts."""

import hashlib
import json


def canonical(graph):
    """Returns the graph with values numbered in the order of use, and with names, shapes and sizes inlined."""
    strings, numbers = graph["strings"], {}

    def value(number):
        return numbers.setdefault(number, len(numbers))

    def size(number):
        entry = graph["sizes"][number]
        if entry[0] == "size":
            return ["size", value(entry[1]), entry[2]]
        return [entry[0], *[operand(part) for part in entry[1:]]]

    def operand(part):
        return [size(part[0])] if type(part) is list else part

    def argument(part):
        if type(part) is not list:
            return part
        if len(part) == 1 and type(part[0]) is int:
            return [value(part[0])]
        if part[0] in ("t", "s"):
            return [part[0], *[argument(each) for each in part[1:]]]
        return ["e", size(part[1])] if part[0] == "e" else part

    def node(row):
        if strings[row[0]][0] == "@":
            crossings = [[place, value(a), value(b), *rest] for place, a, b, *rest in row[-1]]
            return [strings[row[0]], strings[row[1]], *row[2:-1], crossings]
        keywords = [strings[k] if i % 2 == 0 else argument(k) for i, k in enumerate(row[2])]
        return [strings[row[0]], [argument(a) for a in row[1]], keywords, [value(v) for v in row[3]]]

    nodes = [node(row) for row in graph["nodes"]]
    guards = sorted(json.dumps([op, operand(a), operand(b), held]) for op, a, b, held in graph["guards"])
    leaves = sorted([value(v), kind, strings[path]] for v, kind, path in graph["leaves"])
    described = [graph["values"][number] for number in numbers]
    return {
        "head": {key: graph.get(key) for key in ("mode", "attention", "experts", "dtype", "batch", "sequence")},
        "nodes": nodes,
        "guards": guards,
        "leaves": leaves,
        "values": [[graph["shapes"][shape], strings[dtype], grad] for shape, dtype, grad in described],
        "output": value(graph["output"]),
    }


def digest(graph):
    """Returns a short text that differs for different graphs. Equal numbers written differently count as equal."""

    def plain(part):
        if isinstance(part, dict):
            return {key: plain(each) for key, each in part.items()}
        if isinstance(part, list):
            return [plain(each) for each in part]
        return float(part) if type(part) in (int, float) else part

    return hashlib.sha256(json.dumps(plain(canonical(graph))).encode()).hexdigest()
