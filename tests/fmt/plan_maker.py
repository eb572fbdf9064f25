"""Random plans in the style of users: any order, indentation, quotes, brackets, blank lines, and comments everywhere.

Every comment is unique. `beside` and `above` map a comment to the token that it must still be next to or above after
formatting.
"""

import json
import random

STYLES = ("colwise", "rowwise", "replicate", "sequence_parallel")
LAYOUTS = ("Shard(0)", "Shard(1)", "Replicate", "null", "Shard(-1)")
ORDER = (
    "format",
    "dialect",
    "mesh",
    "axis",
    "uneven",
    "tp_plan",
    "blocks",
    "data",
    "loss",
    "fsdp",
    "remat",
    "init",
    "suppress",
)


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.comments, self.beside, self.above = [], {}, {}
        self.lines = []
        self.names = 0

    def chance(self, share):
        return self.random.random() < share

    def comment(self):
        text = f"# c{len(self.comments)}" + self.random.choice(
            ["", " a: b", " - x", " {[", ' "q', "  two  spaces", " # again", " é *&!", " 'x"]
        )
        self.comments.append(text)
        return text

    def above_lines(self, indent, token):
        """Adds blank lines and comments above the line that begins with `token`."""
        for _ in range(self.random.choice([0, 0, 0, 0, 1, 1, 2])):
            if self.chance(0.3):
                self.lines += [""] * self.random.choice([1, 2, 3])
            comment = self.comment()
            self.above[comment] = token
            self.lines.append(" " * indent + comment)
        if self.chance(0.2):
            self.lines += [self.random.choice(["", "  "])] * self.random.choice([1, 2])

    def tail(self, token):
        """Returns the end of a line after its last token: spaces, a comment, or nothing."""
        if not self.chance(0.25):
            return self.random.choice(["", "", "", " "])
        comment = self.comment()
        self.beside[comment] = token
        return self.random.choice([" ", "  ", "    ", "\t"]) + comment + self.random.choice(["", "  "])

    def name(self):
        self.names += 1
        return self.random.choice(["layers.*.n%d", "n%d", "*.n%d", "a.n%d.w[qk]", "n%d?"]) % self.names

    def quoted(self, text):
        needs = text[0] in "*&!?[{'\"" or ": " in text or " #" in text or text in ("null",)
        return self.random.choice(
            [json.dumps(text), f"'{text}'"] + ([] if needs or any(c in text for c in "[]?*,") else [text] * 2)
        )

    def flow(self, value):
        """Returns a value in brackets, on one line."""
        space = lambda: self.random.choice(["", " ", "  "])
        if isinstance(value, dict):
            items = [f"{k if self.chance(0.7) else json.dumps(k)}: {self.flow(v)}" for k, v in value.items()]
        elif isinstance(value, list):
            items = [self.flow(v) for v in value]
        else:
            return str(value)
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return opening + space() + (space() + "," + self.random.choice([" ", "  "])).join(items) + space() + closing

    def entry(self, indent, key, value, block_share=0.5):
        """Writes `key: value` in a random layout; `key` is written as given."""
        self.above_lines(indent, key)
        head = " " * indent + key + self.random.choice(["", "", "", " "]) + ":"
        if not isinstance(value, (dict, list)):
            self.lines.append(head + self.random.choice([" ", " ", "   "]) + str(value) + self.tail(key))
        elif not value or not self.chance(block_share):
            text = self.flow(value)
            if self.chance(0.15) and value:
                # Over several lines. The comment belongs to a token inside, so only its text is checked.
                comma = text.find(", ")
                if comma > 0 and isinstance(value, dict):
                    text = text[: comma + 1] + "  " + self.comment() + "\n" + " " * (indent + 4) + text[comma + 2 :]
            self.lines += (head + " " + text + self.tail(key)).split("\n")
        else:
            # Next to the key of a block.
            self.lines.append(head + self.tail(key))
            step = self.random.choice([1, 2, 2, 2, 4])
            if isinstance(value, dict):
                for k, v in value.items():
                    self.entry(indent + step, k, v)
            else:
                step = self.random.choice([0, 2, 4])
                for item in value:
                    if isinstance(item, dict):
                        self.above_lines(indent + step, "- ")
                        for i, (k, v) in enumerate(item.items()):
                            self.lines.append(
                                " " * (indent + step) + ("- " if i == 0 else "  ") + f"{k}: {v}" + self.tail(str(k))
                            )
                    else:
                        self.above_lines(indent + step, "- ")
                        self.lines.append(" " * (indent + step) + "- " + self.flow(item) + self.tail("- "))
            if self.chance(0.2):
                self.lines.append(" " * (indent + max(step, 1)) + self.comment())

    def rule(self):
        kind = self.random.randrange(6)
        if kind < 2:
            return self.random.choice(STYLES)
        if kind == 2:
            return self.random.choice([["tp", "null"], ["null", ["tp", "fsdp"]], ["..."], []])
        if kind == 3:
            return {
                "style": "prepare_module_input",
                "input_layouts": [self.random.choice(LAYOUTS), "null"],
                "desired_input_layouts": ["Replicate", "null"],
            }
        if kind == 4:
            return {
                "style": "prepare_module_input",
                "input_layouts": "Replicate",
                "desired_input_layouts": "Shard(1)",
                "input_kwarg_layouts": {"hidden_states": "Shard(1)", "x": "Replicate"},
                "desired_input_kwarg_layouts": {"hidden_states": "Replicate", "x": "Shard(0)"},
            }
        options = {
            "style": "colwise",
            "input_layouts": "Shard(1)",
            "output_layouts": "Replicate",
            "use_local_output": "false",
            "forward_dtype": "float32",
            "axis": "tp",
            "optional": "true",
        }
        return {k: v for k, v in options.items() if k == "style" or self.chance(0.5)}

    def rules(self):
        return {self.quoted(self.name()): self.rule() for _ in range(self.random.randrange(1, 6))}

    def patterns(self):
        return [json.dumps(self.name()) for _ in range(self.random.randrange(1, 4))]

    def plan(self):
        plan = {"format": "tpplan.plan/1", "mesh": {"fsdp": 2, "tp": 4}, "tp_plan": self.rules()}
        more = {
            "dialect": "glob",
            "axis": "tp",
            "uneven": "torch",
            "blocks": {self.quoted(self.name()): self.rules() for _ in range(2)},
            "data": {"axes": ["fsdp"], "dim": 0},
            "loss": {"reduction": "mean", "count": "global", "axes": ["fsdp"], "cross_entropy": "parallel"},
            "fsdp": {"axis": "fsdp", "policy": "dim0", "units": self.patterns()},
            "remat": self.patterns(),
            "init": {
                self.quoted(self.name()): value
                for value in ("zeros", {"constant": 0.5}, {"normal": {"mean": 0, "std": 0.02}})
            },
            "suppress": [{"code": "TP4006", "reason": json.dumps(f"it's {self.name()}")} for _ in range(2)],
        }
        plan |= {k: v for k, v in more.items() if self.chance(0.5)}
        keys = list(plan)
        if self.chance(0.6):
            self.random.shuffle(keys)
        else:
            keys.sort(key=ORDER.index)
        if self.chance(0.5):
            self.lines.append("# yaml-language-server: $schema=../plan.schema.json")
            self.comments.append(self.lines[0])
        if self.chance(0.1):
            self.lines.append("---")
        for key in keys:
            self.entry(0, key, plan[key], 0.9 if key in ("tp_plan", "blocks") else 0.4)
        if self.chance(0.3):
            self.lines += ["", self.comment(), ""]
        text = "\n".join(self.lines) + self.random.choice(["", "\n", "\n", "\n\n\n"])
        return text.replace("\n", "\r\n") if self.chance(0.1) else text, keys[0]


def make(seed):
    maker = Maker(seed)
    text, first = maker.plan()
    # Comments above the first key belong to the file, wherever the key moves.
    above = {comment: token for comment, token in maker.above.items() if token != first}
    return text, maker.comments, maker.beside, above


PIECES = [
    "#",
    "# x",
    "\n",
    "\n\n",
    " ",
    ":",
    ": ",
    ",",
    "[",
    "]",
    "{",
    "}",
    "-",
    "- ",
    '"',
    "'",
    "&a ",
    "*a",
    "!!str ",
    "? ",
    "|\n",
    ">",
    "\t",
    "null",
    "~",
    "---\n",
    "...\n",
    "%",
    "\\",
    "é",
    "\r",
    "@",
    "`",
    "x",
]


def mutate(seed):
    """A random plan with some bytes inserted, removed or moved: most are invalid, the others unusual."""
    chance = random.Random(f"mutate {seed}")
    text = make(seed)[0]
    for _ in range(chance.choice([1, 1, 2, 3])):
        at, kind = chance.randrange(len(text) + 1), chance.randrange(3)
        if kind == 0:
            text = text[:at] + chance.choice(PIECES) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + chance.choice([1, 2, 5]) :]
        else:
            begin = chance.randrange(len(text) + 1)
            text = text[:at] + text[begin : begin + chance.randrange(20)] + text[at:]
    return text
