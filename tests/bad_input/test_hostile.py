"""Inputs of up to 64 MB, built to be slow or large: exit status 2 (1 if the bytes are well-formed YAML), at most 256 MiB, and time linear
in the bytes: a release build needs one CPU second (measure.py bounds it)."""

import itertools
import json
import os
import random

import pytest
from conftest import PROGRAM, linear_model
from measure import measured
from promise import DIAGNOSTIC, HEAD, PLAN

MODEL_BYTES = 64_000_000
# The inputs with the highest time or memory per byte have the largest size; the others have a fraction of it.
PART = {"model.json": 32, "plan.yaml": 4}
WHOLE = {"parameters", "alias-bomb", "list-of-lines", "rules"}
PLAN_BYTES = 8 * 1024 * 1024  # the limit of read_yaml
MEBIBYTES = 256
SANITIZED = os.environ.get("TPPLAN_SANITIZED") == "1"

OPEN = '{"format": "tpplan.model/1", "name": "T", "framework": "torch", '
LINEAR = '{"path": "wq", "type": "Linear", "parameters": {"weight": {"shape": [16, 8], "dtype": "float32"'
RULES = HEAD + "mesh: {tp: 4}\ntp_plan:\n"


def numbered(text, count=None):
    """`text` with 0, 1, 2, ... for its %d, in blocks of a thousand."""
    places = text.count("%d")
    block = text.replace("%", "%%").replace("%%d", "%d") * 1000
    for first in itertools.count(0, 1000) if count is None else range(0, count, 1000):
        yield block % tuple(i for i in range(first, first + 1000) for _ in range(places))


def noise(seed, alphabet=None):
    generator = random.Random(seed)
    letters = alphabet and bytes(alphabet[b % len(alphabet)] for b in range(256))
    while True:
        block = generator.randbytes(1 << 16)
        yield block.translate(letters) if letters else block


def fill(path, size, head, body, tail=""):
    """Writes head, repeated body (an iterable or a text), and tail: `size` bytes at most."""
    body = itertools.repeat(body * max(1, 65536 // len(body))) if isinstance(body, (str, bytes)) else body
    tail = tail.encode()
    with open(path, "wb") as file:
        file.write(head.encode())
        left = size - len(head) - len(tail)
        for piece in body:
            piece = piece.encode() if isinstance(piece, str) else piece
            if len(piece) > left:
                break
            file.write(piece)
            left -= len(piece)
        file.write(tail)


def survive(folder, which, *content, size, status=2):
    """Compiles a hostile model or plan (the arguments of `fill`) with a good counterpart, and checks the promise."""
    (folder / "model.json").write_text(json.dumps(linear_model(wq=[16, 8])))
    (folder / "plan.yaml").write_text(PLAN)
    fill(folder / which, size, *content)
    result = measured(PROGRAM, "compile", folder / "model.json", folder / "plan.yaml", "-o", folder / "out.json")
    print(
        f"measured: exit status {result['status']}, {result['seconds']:.2f} s, {result['mebibytes']:.0f} MiB, "
        f"{result['message_bytes']} bytes of messages"
    )
    assert result["status"] == status, result
    assert not (folder / "out.json").exists()
    first = DIAGNOSTIC.match(result["message"].splitlines()[0])
    assert first and first["file"].endswith(which), result["message"]
    assert len(result["message"].splitlines()[0]) < 1000 and result["message_bytes"] < 1_000_000
    if not SANITIZED:
        assert result["mebibytes"] <= MEBIBYTES, result


MODELS = {
    "brackets": ("", "["),
    "braces": ("", "{"),
    "objects-in-objects": ("", '{"a":'),
    "brackets-inside": (OPEN + '"graph": ', "["),
    "objects-inside": (OPEN + '"graph": ', '{"a":'),
    "lists-of-depth-60": (OPEN + '"graph": [', "[" * 60 + "]" * 60 + ","),
    "string-without-end": (OPEN + '"x": "', "a"),
    "string-as-a-key": ("{", '"' + "a" * 1000),
    "long-string": (OPEN + '"x": "', "a", '"}'),
    "long-path": (OPEN + '"modules": [{"path": "', "a", '", "type": "T"}]}'),
    "strings-of-3-mb": (OPEN + '"graph": [', '"' + "a" * 3_000_000 + '",'),
    "long-number": (OPEN + '"x": ', "1"),
    "long-fraction": (OPEN + '"x": 0.', "1"),
    "long-exponent": (OPEN + '"x": 1e', "1"),
    "long-dim": (OPEN + '"modules": [' + LINEAR.replace("16", "1" * 1000), "1"),
    "numbers": (OPEN + '"graph": [', "1,"),
    "floats": (OPEN + '"graph": [', "1.2345e-5,"),
    "escapes": (OPEN + '"x": "', "\\u0041"),
    "surrogate-pairs": (OPEN + '"x": "', "\\ud83d\\ude00"),
    "short-escapes": (OPEN + '"x": "', "\\n"),
    "strings-with-escapes": (OPEN + '"graph": [', '"\\u0041",'),
    "keys-with-escapes": (OPEN + '"graph": {', numbered('"\\u0041%d":0,')),
    "keys-in-what-is-left-unread": (OPEN + '"graph": {', numbered('"%d":0,')),
    "keys-at-two-depths": (
        OPEN + '"graph": {"a": {' + "".join(numbered('"%d":0,', 3_000_000)) + '"z":0}, ',
        numbered('"%d":0,'),
    ),
    "unknown-keys": (OPEN, numbered('"%d":0,')),
    "unknown-keys-of-a-module": (OPEN + '"modules": [{"path": "a", "type": "T", ', numbered('"%d":0,')),
    "unknown-keys-of-a-closed-module": (
        OPEN + '"modules": [{"path": "a", "type": "T", ',
        numbered('"%d":0,'),
        '"z":0}',
    ),
    "unknown-keys-of-a-parameter": (OPEN + '"modules": [' + LINEAR + ", ", numbered('"%d":0,'), '"z":0}}}'),
    "attributes": (OPEN + '"modules": [{"path": "a", "type": "T", "attributes": {', numbered('"%d":0,'), '"z":0}}'),
    "modules": (OPEN + '"modules": [', numbered('{"path":"%d","type":""},')),
    "modules-of-one-path": (OPEN + '"modules": [', '{"path":"a","type":""},'),
    "modules-of-many-types": (OPEN + '"modules": [', numbered('{"path":"%d","type":"%d"},')),
    "deep-paths": (OPEN + '"modules": [', numbered('{"path":"' + "a." * 2000 + '%d","type":""},')),
    "parameters": (
        OPEN + '"modules": [',
        numbered('{"path":"%d","type":"","parameters":{"a":{"shape":[],"dtype":"bool"}}},'),
    ),
    "parameters-of-one-module": (
        OPEN + '"modules": [{"path":"a","type":"","parameters":{',
        numbered('"%d":{"shape":[],"dtype":"bool"},'),
    ),
    "parameters-of-a-closed-module": (
        OPEN + '"modules": [{"path":"a","type":"","parameters":{',
        numbered('"%d":{"shape":[],"dtype":"bool"},'),
        '"z":{"shape":[],"dtype":"bool"}}}',
    ),
    "wrong-parameters": (OPEN + '"modules": [{"path":"a","type":"","parameters":{', numbered('"%d":0,'), '"z":0}}'),
    "empty-modules": (OPEN + '"modules": [', "{},"),
    "shape-without-end": (OPEN + '"modules": [' + LINEAR.split("16")[0], "1,"),
    "shape-of-millions": (OPEN + '"modules": [' + LINEAR.split("16")[0], "1,", '1], "dtype": "float32"}}}]}'),
    "dims-of-millions": (OPEN + '"modules": [' + LINEAR + ', "dims": [', numbered('"%d",'), '"z"]}}}]}'),
    "segments-of-millions": (OPEN + '"modules": [' + LINEAR + ', "segments": {"out": [', "0,", "16]}}}}]}"),
    "segments-of-unknown-dims": (
        OPEN + '"modules": [' + LINEAR + ', "segments": {',
        numbered('"%d":[],'),
        '"z":[]}}}}]}',
    ),
    "granularity-of-unknown-dims": (
        OPEN + '"modules": [' + LINEAR + ', "granularity": {',
        numbered('"%d":1,'),
        '"z":1}}}}]}',
    ),
    "ties": (OPEN + '"tied": [', '["a","b"],'),
    "ties-of-missing-names": (OPEN + '"modules": [' + LINEAR + '}}}], "tied": [', '["a","b"],', '["a","b"]]}'),
    "tie-of-millions": (OPEN + '"modules": [' + LINEAR + '}}}], "tied": [[', '"a",', '"b"]]}'),
    "blanks": ("", " "),
    "line-breaks": ("", "\n"),
    "blanks-in-an-object": ("{", " \t\r\n"),
    "blanks-behind": (OPEN + '"modules": []}', " ", "x"),
    "commas": ("{", ","),
    "quotes": ("{", '"'),
    "nuls": ("", "\0"),
    "nuls-inside": (OPEN, "\0"),
    "ones": ("", b"\xff"),
    "random-bytes": ("", noise(1)),
    "random-bytes-inside": (OPEN + '"x": "', noise(2)),
    "random-json": ("", noise(3, b'[]{}:,"\\ 019.-eE+truefalsn\n')),
    "random-json-inside": (OPEN + '"graph": [', noise(4, b'[]{}:,"\\ 019.-eE+truefalsn\n')),
    "plan": ("", "  - a: [b, *c]\n"),
}

PLANS = {
    "brackets": ("", "["),
    "braces": ("", "{"),
    "pairs": ("", "{a: "),
    "dashes": ("", "- "),
    "questions": ("", "? "),
    "colons": ("", ": "),
    "brackets-inside": (RULES + "  wq: ", "["),
    "lists-of-depth-60": (RULES + "  wq: [", "[" * 60 + "]" * 60 + ","),
    "word": ("", "a"),
    "words": ("", "a "),
    "lines": ("", "a\n"),
    "long-key": (RULES + "  ", "a", ": colwise\n"),
    "double-quoted": (RULES + '  wq: "', "a"),
    "double-quoted-lines": (RULES + '  wq: "', "a\n   "),
    "single-quoted": (RULES + "  wq: '", "a"),
    "escaped": (RULES + '  wq: "', "\\u0041"),
    "block-text": (RULES + "  wq: |\n", "    aaaa\n"),
    "folded-text": (RULES + "  wq: >\n", "    aaaa\n\n"),
    "list": (RULES + "  wq: [", "a,"),
    "list-of-lines": (RULES + "  wq:\n", "  - a\n"),
    "list-of-nulls": (RULES + "  wq: [", "~,"),
    "list-of-maps": (RULES + "  wq: [", "{a: b},"),
    "rules": (RULES, numbered("  w%d: colwise\n")),
    "wrong-rules": (RULES, numbered("  w%d: x\n"), "  w0: x\n"),
    "240000-wrong-rules": (RULES, numbered("  w%d: x\n", 240_000)),
    "unknown-keys": (HEAD, numbered("k%d: x\n", 240_000), "mesh: {tp: '4'}\n"),
    "mesh-axes": (HEAD + "mesh: {", numbered("a%d: 2, ", 240_000), "z: 2}\ntp_plan: {wq: colwise}\n"),
    "data-axes": (PLAN + "data: {axes: [", "tp, ", "tp], dim: -1}\n"),
    "wrong-spec": (RULES + "  wq: [", "x, " * 10, "x]\n"),
    "wrong-layouts": (RULES + "  wq: {style: colwise, axis: [], input_layouts: [", "x, ", "x]}\n"),
    "patterns": (PLAN + "fsdp: tp\nremat: [", '"*a*b*c*", ', '"*"]\n'),
    "anchors": (RULES + "  wq: [", numbered("&a%d x,")),
    "aliases-of-the-first-of-many": (RULES + "  wq: [" + "".join(numbered("&a%d x,", 100_000)), "*a0,"),
    "anchors-with-their-aliases-before-a-slip": (RULES, numbered('  "a%d": [&a%d x, *a%d]\n'), '  "b: x\n'),
    "aliases": (RULES + "  wq: [&a x,", "*a,"),
    "aliases-of-lists": (RULES + "  wq: [&a [x,x,x,x,x,x,x,x],", "*a,", "*a]\n"),
    "blocks-that-share-rules": (
        HEAD + "mesh: {tp: '4'}\nblocks:\n  b: &r {" + ", ".join(numbered("a%d: colwise", 3000)) + "}\n",
        numbered("  b%d: *r\n"),
    ),
    "good-blocks-that-share-wrong-rules": (
        HEAD + "mesh: {tp: 4}\nblocks:\n  b: &r {" + ", ".join(numbered("a%d: [0.5]", 2000)) + "}\n",
        numbered("  b%d: *r\n", 2000),
    ),
    "alias-bomb": (RULES + "  w: &a0 [x]\n", numbered("  w%d: &b [*a0,*a0,*a0,*a0,*a0,*a0,*a0,*a0]\n")),
    "merge-keys": (RULES, "  <<: *a\n"),
    "tags": (RULES + "  wq: [", "!!str a,"),
    "unknown-tags": ("", "!a "),
    "directives": ("", "%YAML 1.2\n"),
    "tag-directives": ("", numbered("%TAG !%d! tag:a,2000:\n")),
    "documents": (PLAN, "---\n"),
    "comments": ("", "# a\n"),
    "comment": ("#", "a"),
    "comment-behind": (PLAN + "#", "a", "\n- x\n"),
    "blanks": ("", " ", "x"),
    "line-breaks": ("", "\n", "x"),
    "returns": ("", "\r", "x"),
    "deeper-and-deeper": ("", (" " * i + "a:\n" for i in itertools.count())),
    "tabs": ("", "\t"),
    "commas": ("", ","),
    "quotes": ("", '"" '),
    "stars": ("", "*"),
    "nuls": ("", "\0"),
    "ones": ("", b"\xff"),
    "random-bytes": ("", noise(5)),
    "random-ascii": ("", noise(6, bytes(range(32, 127)) + b"\n")),
    "random-yaml": ("", noise(7, b"ab:-?,[]{}#&*!|>'\"%@` \n \n \n")),
    "random-yaml-inside": (RULES + "  wq: ", noise(8, b"ab:-?,[]{}#&*!|>'\"%@` ")),
    "multi-byte": ("", "\u4e2d\u6587 "),
    "model": ("", '{"format": "tpplan.model/1", "modules": [{"path": "a"}]} '),
}


# Well-formed YAML that is no plan, or a wrong one.
WRONG_CONTENT = {"block-text", "folded-text", "240000-wrong-rules", "documents", "comments", "comment"}


def size_of(which, name):
    whole = {"model.json": MODEL_BYTES, "plan.yaml": PLAN_BYTES}[which]
    return whole if name in WHOLE else whole // PART[which]


def test_every_kind_has_a_file_of_the_largest_size():
    assert WHOLE < MODELS.keys() | PLANS.keys()


@pytest.mark.parametrize("name", MODELS)
def test_hostile_model_is_rejected_quickly(tmp_path, name):
    survive(tmp_path, "model.json", *MODELS[name], size=size_of("model.json", name))


@pytest.mark.parametrize("name", PLANS)
def test_hostile_plan_is_rejected_quickly(tmp_path, name):
    status = 1 if name in WRONG_CONTENT else 2
    survive(tmp_path, "plan.yaml", *PLANS[name], size=size_of("plan.yaml", name), status=status)


@pytest.mark.parametrize("name", ["brackets", "word", "nuls", "random-bytes", "rules", "blanks"])
def test_hostile_plan_of_64_mb_is_rejected_quickly(tmp_path, name):
    survive(tmp_path, "plan.yaml", *PLANS[name], size=MODEL_BYTES)
