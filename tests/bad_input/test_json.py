"""Broken and hostile JSON: an unreadable model ends with exit status 2, a code and a place."""

import json
import re

import pytest
from conftest import linear_model, run, write
from promise import PLAN, UNPRINTABLE, case, hold

HEAD = '{"format": "tpplan.model/1", "name": "T", "framework": "torch", '


def model(parameters='"weight": {"shape": [16, 8], "dtype": "float32"}', more="", path="wq", framework="torch"):
    """A model of one Linear on separate lines: the module on 2, its parameters on 3."""
    head = HEAD.replace("torch", framework)
    entry = f'{{"path": {json.dumps(path)}, "type": "Linear", "parameters": {{\n  {parameters}}}}}'
    return f'{head}"modules": [\n {entry}]{more}}}\n'


def weight(shape="[16, 8]", dtype='"float32"', name='"weight"'):
    return model(f'{name}: {{"shape": {shape}, "dtype": {dtype}}}')


def two(first, second, more=""):
    """Two Linear modules, wq and wk, with these shapes."""
    return json.dumps(linear_model(wq=first, wk=second))[:-1] + more + "}"


def keras(name="kernel", path="wq"):
    return model(f'{json.dumps(name)}: {{"shape": [8, 16], "dtype": "float32"}}', path=path, framework="keras")


DUPLICATES = [
    case(
        "30-parameter-twice",
        model('"weight": {"shape": [16, 8], "dtype": "float32"},\n  "weight": {"shape": [16, 8], "dtype": "float32"}'),
        2,
        "TP1006",
        (4, 3),
    ),
    case(
        "30-field-twice",
        model('"weight": {"shape": [16, 8], "shape": [16, 4], "dtype": "float32"}'),
        2,
        "TP1006",
        '"shape": [16, 4]',
    ),
    case("30-top-level-key-twice", model(more=',\n "name": "U"'), 2, "TP1006", '"name": "U"', "(model.json:1:30)"),
    case(
        "30-escaped-equal",
        model(
            '"weight": {"shape": [16, 8], "dtype": "float32"},\n  "w\\u0065ight": {"shape": [8], "dtype": "float32"}'
        ),
        2,
        "TP1006",
        (4, 3),
    ),
    case(
        "30-both-escaped",
        model('"\\u0061": {"shape": [16, 8], "dtype": "float32"},\n  "\\u0061": {"shape": [8], "dtype": "float32"}'),
        2,
        "TP1006",
        (4, 3),
    ),
    case("30-inside-what-is-left-unread", model(more=',\n "graph": {"a": {"b": 1, "b": 2}}'), 2, "TP1006", (4, 26)),
    case(
        "30-key-17-of-many",
        model(more=', "graph": {' + ", ".join(f'"k{i}": 0' for i in range(17)) + ', "k16": 0}'),
        2,
        "TP1006",
    ),
    case(
        "30-among-100000-keys",
        lambda: model(more=', "graph": {' + ", ".join(f'"k{i}": 0' for i in range(100_000)) + ', "k777": 0}'),
        2,
        "TP1006",
    ),
    case("30-module-twice", two([16, 8], [16, 8]).replace('"wk"', '"wq"'), 2, "TP2005", None, "declared twice"),
    case(
        "30-parameter-and-buffer",
        model()[:-4] + ', "buffers": {"weight": {"shape": [1], "dtype": "bool"}}}]}',
        2,
        "TP2005",
    ),
]

NUMBERS = [
    *[
        case(f"31-{word}", weight(f"[16, {word}]"), 2, "TP1003")
        for word in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999")
    ],
    case("31-nan-in-what-is-left-unread", model(more=', "graph": [NaN]'), 2, "TP1003"),
    case("31-huge-exponent-in-what-is-left-unread", model(more=', "graph": [1e999]'), 2, "TP1003"),
    *[
        case(f"31-{name}", weight(f"[16, {text}]"), 2, "TP1003")
        for name, text in {
            "hexadecimal": "0x10",
            "leading-zero": "08",
            "plus": "+8",
            "bare-point": "8.",
            "no-digits": "-",
            "underscore": "1_6",
            "true-capital": "True",
            "none": "None",
        }.items()
    ],
    *[
        case(f"32-dim-{name}", weight(f"[16, {text}]"), 2, "TP2003", f"{text}]", says)
        for name, text, says in [
            ("float", "2.0", "2.0"),
            ("exponent", "2e1", "2e1"),
            ("text", '"2"', "a string"),
            ("true", "true", "a boolean"),
            ("null", "null", "null"),
            ("list", "[8]", "an array"),
            ("object", "{}", "an object"),
            ("minus-zero", "-0", "-0"),
            ("2-to-the-63", str(2**63), str(2**63)),
            ("2-to-the-64", str(2**64), None),
        ]
    ],
    case("32-dim-of-400-digits", weight("[16, " + "9" * 400 + "]"), 2),
    case("32-dim-minus-one", weight("[16, -1]"), 2, "TP2008", "-1]", "-1"),
    case("32-dim-smallest", weight(f"[16, -{2**63}]"), 2, "TP2008", f"-{2**63}"),
    case("32-shape-is-a-number", weight("16"), 2, "TP2003", (3, 23)),
    case("32-shape-is-null", weight("null"), 2, "TP2003", (3, 23)),
    case("33-product-overflows", weight(f"[{2**32}, {2**31}]"), 2, "TP2008", (3, 23), "2^63"),
    case("33-product-is-zero-in-64-bits", weight(f"[{2**32}, {2**32}]"), 2, "TP2008", (3, 23)),
    case("33-product-is-one-in-64-bits", weight(f"[{0xFFFFFFFFFFFFFFF}, {0xFFFFFFFFFFFFFFF}]"), 2, "TP2008"),
    case("33-product-of-64-dims", weight("[" + ", ".join(["2"] * 64) + "]"), 2, "TP2008"),
    *[
        case(f"34-overflow-with-zero-{name}", weight(shape), 2, "TP2008", (3, 23), "2^63")
        for name, shape in {
            "first": f"[0, {2**62}, {2**62}]",
            "in-the-middle": f"[{2**62}, 0, {2**62}]",
            "last": f"[{2**62}, {2**62}, 0]",
        }.items()
    ],
    case("41-rank-65", weight("[" + ", ".join(["1"] * 65) + "]"), 2, "TP2008", (3, 23), "65 dims"),
    case("41-rank-300", weight("[" + ", ".join(["1"] * 300) + "]"), 2, "TP2008", (3, 23), "300 dims"),
    case("33-attribute-zero", model()[:-4] + ', "attributes": {"num_heads": 0}}]}', 2, "TP2003"),
    case("33-attribute-float", model()[:-4] + ', "attributes": {"num_heads": 4.5}}]}', 2, "TP2003"),
    case("33-attribute-text", model()[:-4] + ', "attributes": {"num_heads": "4"}}]}', 2, "TP2003"),
    case(
        "33-segments-overflow",
        model(
            f'"weight": {{"shape": [16, 8], "dtype": "float32", "segments": {{"out": [{2**63 - 1}, {2**63 - 1}, 18]}}}}'
        ),
        2,
        "TP2009",
    ),
    case(
        "33-segments-too-few",
        model('"weight": {"shape": [16, 8], "dtype": "float32", "segments": {"out": [8]}}'),
        2,
        "TP2009",
    ),
    case(
        "33-segment-negative",
        model('"weight": {"shape": [16, 8], "dtype": "float32", "segments": {"out": [17, -1]}}'),
        2,
        "TP2009",
    ),
    case(
        "33-granularity-zero",
        model('"weight": {"shape": [16, 8], "dtype": "float32", "granularity": {"out": 0}}'),
        2,
        "TP2009",
    ),
    case("33-dims-too-few", model('"weight": {"shape": [16, 8], "dtype": "float32", "dims": ["out"]}'), 2, "TP2009"),
    case(
        "33-dim-named-twice",
        model('"weight": {"shape": [16, 8], "dtype": "float32", "dims": ["out", "out"]}'),
        2,
        "TP2009",
    ),
]

SYNTAX = [
    case("01-empty-file", "", 2, "TP1008", (1, 1), "empty"),
    case("01-blanks", " \n\n", 2),
    case("35-depth-100", model(more=', "graph": ' + "[" * 100 + "]" * 100), 2, "TP1007"),
    case("36-lone-high-surrogate", model(path="w").replace('"w"', '"w\\ud800"'), 2, "TP1003", None),
    case("36-lone-low-surrogate", model(path="w").replace('"w"', '"w\\udc00"'), 2, "TP1003", None),
    case("36-two-high-surrogates", model(path="w").replace('"w"', '"w\\ud800\\ud800"'), 2, "TP1003", None),
    case("36-encoded-surrogate", model(path="w").encode().replace(b'"w"', b'"w\xed\xa0\x80"'), 2, None, None),
    case("36-invalid-utf8", model(path="w").encode().replace(b'"w"', b'"w\xff"'), 2, None, None),
    case("36-overlong", model(path="w").encode().replace(b'"w"', b'"w\xc0\xaf"'), 2, None, None),
    case("36-invalid-utf8-between-values", model().encode()[:-1] + b"\xff", 2, None, None),
    case("36-raw-line-break-in-a-string", model(path="w").replace('"w"', '"w\n"'), 2, "TP1003", None),
    case("36-raw-escape-in-a-string", model(path="w").replace('"w"', '"w\x1b[2J"'), 2, "TP1003", None),
    case("36-raw-nul-in-a-string", model(path="w").replace('"w"', '"w\0"'), 2, "TP1003", None),
    case("36-nul-between-values", model().replace("\n", "\0", 1), 2, "TP1003", None),
    case("36-bad-escape", model(path="w").replace('"w"', '"\\q"'), 2, "TP1003", None),
    case("36-byte-order-mark", b"\xef\xbb\xbf" + model().encode(), 2, "TP1005", (1, 1), "byte order mark"),
    case("36-utf-16", model().encode("utf-16"), 2, "TP1005", (1, 1)),
    case("36-utf-16-without-mark", model().encode("utf-16-le"), 2, None, (1, 2)),
    case("38-word-behind-the-end", model() + "junk", 2, "TP1003", (4, 1)),
    case("38-second-object", model() + model(), 2, "TP1003", (4, 1)),
    case("38-second-brace", model() + "}", 2, "TP1003", (4, 1)),
    case("38-nul-behind-the-end", model() + "\0", 2, "TP1003", (4, 1)),
    case("38-comma-behind-the-end", model() + ",", 2, "TP1003", (4, 1)),
    case("38-comma-behind-the-last-entry", model().replace("]}\n", "],}\n"), 2, "TP1003", None),
    case("38-comment", "// a model\n" + model(), 2, "TP1003", (1, 1)),
    case("38-single-quotes", model().replace('"', "'"), 2, "TP1003", (1, 2)),
    case("38-missing-comma", model().replace('"name"', '"nam" "name"'), 2, "TP1003", None),
    case("38-missing-colon", model().replace('"name":', '"name"'), 2, "TP1003", None),
    *[
        case(f"39-top-level-{name}", text, 2, "TP1003", (1, 1), "not a JSON object" if name != "array" else None)
        for name, text in {
            "array": "[]",
            "string": '"a"',
            "null": "null",
            "number": "1",
            "float": "1.5",
            "minus-zero": "-0",
            "true": "true",
            "large-number": str(2**64),
        }.items()
    ],
    case("39-array-of-models", "[" + model() + "]", 2, "TP1003", (1, 1)),
    case("39-a-plan", PLAN, 2, "TP2001"),
    case("39-pickle", b"\x80\x02}q\0.", 2, None, (1, 1)),
    case("39-zip", b"PK\x03\x04" + bytes(100), 2, "TP2001", (1, 1)),
    case(
        "39-git-lfs-pointer",
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n",
        2,
        "TP1003",
        (1, 1),
    ),
    case("39-html", "<!DOCTYPE html>\n<html></html>\n", 2, "TP1003", (1, 1)),
]

STRUCTURE = [
    case("42-unknown-dtype", weight(dtype='"float17"'), 2, "TP2007", (3, 41)),
    case("42-dtype-of-safetensors", weight(dtype='"BF16"'), 2, "TP2007", (3, 41)),
    case("42-dtype-lower-case-of-safetensors", weight(dtype='"bf16"'), 2, "TP2007", (3, 41)),
    case("42-dtype-upper-case", weight(dtype='"FLOAT32"'), 2, "TP2007", (3, 41)),
    case("42-dtype-with-its-module", weight(dtype='"torch.float32"'), 2, "TP2007", (3, 41)),
    case("42-dtype-empty", weight(dtype='""'), 2, "TP2007", (3, 41)),
    case("42-dtype-null", weight(dtype="null"), 2, "TP2003", (3, 41)),
    case("42-dtype-missing", model('"weight": {"shape": [16, 8]}'), 2, "TP2002", (3, 3)),
    case("42-shape-missing", model('"weight": {"dtype": "float32"}'), 2, "TP2002", (3, 3)),
    case("43-parameter-with-an-empty-name", weight(name='""'), 2, "TP2006", (3, 3)),
    case("43-parameter-with-a-separator", weight(name='"a.b"'), 2, "TP2006", (3, 3)),
    case("43-keras-parameter-with-a-separator", keras(name="a/b"), 2, "TP2006", (3, 3)),
    case("43-path-with-an-empty-part", model(path="a..b"), 2, "TP2006", (2, 11)),
    case("43-path-of-dots", model(path=".."), 2, "TP2006", (2, 11)),
    case("43-path-starts-with-a-separator", model(path=".a"), 2, "TP2006", (2, 11)),
    case("43-path-ends-with-a-separator", model(path="a."), 2, "TP2006", (2, 11)),
    case("43-keras-path-with-an-empty-part", keras(path="a//b"), 2, "TP2006", (2, 11)),
    case("43-keras-path-is-absolute", keras(path="/etc/passwd"), 2, "TP2006", (2, 11)),
    case("43-path-of-1-mb", lambda: model(path="w" * (1 << 20)), 2, "TP2006", (2, 11)),
    case("43-name-of-1-mb", lambda: weight(name='"' + "w" * (1 << 20) + '"'), 2, "TP2006", (3, 3)),
    case("43-type-of-1-mb", lambda: model().replace("Linear", "L" * (1 << 20)), 2, "TP2006"),
    case("43-path-of-4097-bytes", model(path="w" * 4097), 2, "TP2006", (2, 11)),
    case("43-string-beyond-the-token-limit", lambda: model(path="w" * (5 << 20)), 2, "TP1007"),
    case("45-tied-with-different-shapes", two([16, 8], [8, 8], ', "tied": [["wq.weight", "wk.weight"]]'), 2, "TP2010"),
    case(
        "45-tied-with-transposed-shapes", two([16, 8], [8, 16], ', "tied": [["wq.weight", "wk.weight"]]'), 2, "TP2010"
    ),
    case(
        "45-tied-with-different-dtypes",
        two([16, 8], [16, 8], ', "tied": [["wq.weight", "wk.weight"]]').replace("float32", "float16", 1),
        2,
        "TP2010",
    ),
    case(
        "45-tied-twice",
        two([16, 8], [16, 8], ', "tied": [["wq.weight", "wk.weight"], ["wq.weight", "wk.weight"]]'),
        2,
        "TP2010",
    ),
    case("45-tied-to-itself", two([16, 8], [16, 8], ', "tied": [["wq.weight", "wq.weight"]]'), 2, "TP2010"),
    case("45-tied-to-nothing", two([16, 8], [16, 8], ', "tied": [["wq.weight"]]'), 2, "TP2010"),
    case("45-tied-to-a-missing-name", two([16, 8], [16, 8], ', "tied": [["wq.weight", "w\\u001b[2J"]]'), 2, "TP2010"),
    case("45-tied-to-a-module", two([16, 8], [16, 8], ', "tied": [["wq", "wk"]]'), 2, "TP2010"),
    case("45-tied-is-a-map", two([16, 8], [16, 8], ', "tied": {"wq.weight": "wk.weight"}'), 2, "TP2003"),
    case("45-tied-is-flat", two([16, 8], [16, 8], ', "tied": ["wq.weight", "wk.weight"]'), 2, "TP2003"),
    case("46-format-missing", model().replace('"format": "tpplan.model/1", ', ""), 2, "TP2001"),
    case("46-format-newer", model().replace("model/1", "model/2"), 2, "TP2001", (1, 12)),
    case("46-format-of-a-plan", model().replace("tpplan.model", "tpplan.plan"), 2, "TP2001", (1, 12)),
    case("46-format-a-number", model().replace('"tpplan.model/1"', "1"), 2, "TP2003", (1, 12)),
    case("46-format-null", model().replace('"tpplan.model/1"', "null"), 2, "TP2003", (1, 12)),
    case("46-framework-unknown", model(framework="tensorflow"), 2, "TP2011"),
    case("46-framework-null", model().replace('"torch"', "null"), 2, "TP2003"),
    case("46-name-missing", model().replace('"name": "T", ', ""), 2, "TP2002"),
    case("46-framework-missing", model().replace('"framework": "torch", ', ""), 2, "TP2002"),
    case("46-modules-missing", HEAD + '"tied": []}', 2, "TP2002"),
    case("46-modules-a-map", HEAD + '"modules": {}}', 2, "TP2003"),
    case("46-module-a-string", HEAD + '"modules": ["wq"]}', 2, "TP2003"),
    case("46-module-without-path", HEAD + '"modules": [{"type": "Linear"}]}', 2, "TP2002"),
    case("46-module-without-type", HEAD + '"modules": [{"path": "wq"}]}', 2, "TP2002"),
    case("46-path-a-number", HEAD + '"modules": [{"path": 3, "type": "Linear"}]}', 2, "TP2003"),
    case("46-kind-unknown", HEAD + '"modules": [{"path": "wq", "type": "X", "kind": "dense"}]}', 2, "TP2011"),
    case(
        "46-parameters-a-list",
        HEAD + '"modules": [{"path": "wq", "type": "X", "parameters": ["weight"]}]}',
        2,
        "TP2003",
    ),
    case(
        "46-parameter-a-list",
        HEAD + '"modules": [{"path": "wq", "type": "X", "parameters": {"weight": [16, 8]}}]}',
        2,
        "TP2003",
    ),
    case("46-no-parameters", HEAD + '"modules": [{"path": "", "type": "X"}]}', 1),
]


@pytest.mark.parametrize("text, status, code, place, says", DUPLICATES + NUMBERS + SYNTAX + STRUCTURE)
def test_broken_model_is_rejected_at_its_place(tmp_path, text, status, code, place, says):
    hold(tmp_path, status, code, model=text, file="model" if code else None, place=place, says=says)


def test_35_depth_of_five_million_is_rejected(tmp_path):
    hold(tmp_path, 2, "TP1007", model=lambda: model(more=', "graph": ' + "[" * 5_000_000), file="model")
    hold(tmp_path, 2, "TP1007", model=lambda: model(more=', "graph": ' + '{"a":' * 5_000_000), file="model")


def test_37_model_truncated_at_any_byte_is_rejected(tmp_path):
    text = model(more=', "tied": []').rstrip("\n")
    for end in range(1, len(text)):
        hold(tmp_path, 2, "TP1003", model=text[:end], file="model")


def test_37_truncated_model_names_the_place_after_its_last_byte(tmp_path):
    text = model()
    for end in (len(text) - 2, len(text) - 5, text.index("shape")):
        lines = text[:end].split("\n")
        hold(
            tmp_path,
            2,
            "TP1003",
            model=text[:end],
            file="model",
            place=(len(lines), len(lines[-1]) + 1),
            says="it ends before its last value",
        )


@pytest.mark.parametrize(
    "shape",
    [[16, 2**53 + 1], [2**53 + 1], [2**63 - 1], [0, 2**63 - 1], [], [0], [1] * 64, [16, 0]],
    ids=[
        "32-2-to-the-53-plus-1",
        "32-alone",
        "33-largest",
        "34-zero-and-largest",
        "41-rank-0",
        "41-zero",
        "41-rank-64",
        "41-empty-columns",
    ],
)
def test_legal_shapes_are_preserved_exactly(tmp_path, shape):
    plan = PLAN.replace("wq: colwise", "wq.weight: replicate")
    result = hold(tmp_path, 0, model=weight(json.dumps(shape), dtype='"int8"'), plan=plan)
    assert result.manifest["parameters"][0]["shape"] == shape
    assert result.manifest["parameters"][0]["local_shape"] == shape


def test_33_bytes_beyond_64_bits_are_a_limit(tmp_path):
    result = run("compile", *write(tmp_path, weight(json.dumps([2**60, 4])), PLAN))
    assert (result.returncode, result.stdout) == (3, b"") and b"TP9001" in result.stderr


def test_40_hundred_thousand_parameters_are_read(tmp_path):
    modules = {f"layers__{i}__wq": [16, 8] for i in range(100_000)}
    result = hold(tmp_path, 0, model=linear_model(**modules), plan=PLAN.replace("wq:", "'*.wq':"))
    assert len(result.manifest["parameters"]) == 100_000
    assert result.manifest["parameters"][-1]["local_shape"] == [4, 8]


@pytest.mark.parametrize(
    "name, shown",
    [
        ("a\nb", r"a\nb"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\x9b2Jb", r"a\x9b2Jb"),
        ("a\u202eb", r"a\u202eb"),
        ("a\0b", r"a\x00b"),
        ("a\x7fb", r"a\x7fb"),
    ],
    ids=["43-line-break", "43-ansi", "43-c1", "43-override", "43-nul", "43-delete"],
)
def test_control_characters_in_a_name_are_escaped(tmp_path, name, shown):
    text = model(f'{json.dumps(name)}: {{"shape": [15, 8], "dtype": "float32", "dims": ["out", "in"]}}')
    result = hold(tmp_path, 1, "TP5001", model=text)
    assert shown in result.stderr.decode()


@pytest.mark.parametrize("field", ["name", "type", "path", "unknown key", "dtype", "framework", "tied"])
def test_control_characters_in_any_field_are_escaped(tmp_path, field):
    hostile = json.dumps("\x1b[2J\n\x9b\u202e\0")
    text = {
        "name": model().replace('"T"', hostile),
        "type": model().replace('"Linear"', hostile),
        "path": model().replace('"wq"', hostile),
        "unknown key": model(more=f", {hostile}: 0"),
        "dtype": weight(dtype=hostile),
        "framework": model().replace('"torch"', hostile),
        "tied": model(more=f', "tied": [[{hostile}, "wq.weight"]]'),
    }[field]
    (tmp_path / "model.json").write_text(text)
    (tmp_path / "plan.yaml").write_text(PLAN)
    for arguments in (
        ["compile", "-o", "manifest.json"],
        ["check"],
        ["compile", "-v", "-o", "manifest.json"],
        ["compile", "--print=model"],
        ["compile", "--print=matches"],
        ["compile", "--print=shardings"],
    ):
        result = run(arguments[0], "model.json", "plan.yaml", *arguments[1:], cwd=tmp_path)
        assert result.returncode in (0, 1, 2)
        for stream in (result.stderr, result.stdout):
            assert not UNPRINTABLE.search(stream.decode()), (arguments, stream)


def test_43_slash_in_a_torch_name_is_a_normal_character(tmp_path):
    result = hold(tmp_path, 0, model=model(path="a/b"), plan=PLAN.replace("wq:", "a/b:"))
    assert result.manifest["parameters"][0]["path"] == "a/b.weight"


@pytest.mark.parametrize(
    "graph",
    [
        '{"nodes": [{"name": "a", "inputs": ["missing"]}]}',
        '{"nodes": [{"name": "a", "inputs": ["b"]}, {"name": "b", "inputs": ["a"]}]}',
        '{"nodes": [{"name": "a", "inputs": ["a"]}]}',
    ],
    ids=["44-edge-to-a-missing-node", "44-cycle", "44-self-edge"],
)
def test_44_other_operation_formats_are_rejected_at_entry_one(tmp_path, graph):
    hold(
        tmp_path,
        2,
        "TP2003",
        model=model(more=f', "graph": {graph}'),
        file="model",
        says="an entry of `nodes` is not a list",
    )


def test_44_graph_without_operations_is_valid(tmp_path):
    hold(tmp_path, 0, model=model(more=', "graph": {}'))


@pytest.mark.parametrize("graph", ["null", "1.5e300", '"{"', "true"])
def test_44_graph_of_another_type_is_rejected_at_its_place(tmp_path, graph):
    hold(tmp_path, 2, "TP2003", model=model(more=f', "graph": {graph}'), file="model", place=graph, says="`graph` is ")


def test_unknown_key_is_a_warning_at_its_place(tmp_path):
    result = hold(tmp_path, 0, "TP2004", model=model(more=',\n "extra": {"deep": [1]}'), file="model", place=(4, 2))
    assert re.search("unknown key `extra`", result.stderr.decode())
    hold(tmp_path, 1, "TP2004", model=model(more=',\n "extra": 1'), file="model", place=(4, 2), flags=["--strict"])


def test_model_with_thousands_of_errors_is_reported_shortly(tmp_path):
    modules = {f"w{i}": [-1, 8] for i in range(100_000)}
    result = hold(tmp_path, 2, "TP2008", model=linear_model(**modules))
    assert len(result.stderr) < 100_000


def test_both_files_are_read_if_the_first_is_broken(tmp_path):
    result = hold(tmp_path, 2, "TP1003", model=model()[:-3], plan=PLAN.replace("colwise", "colwize"))
    assert b"model.json:3:" in result.stderr and b"plan.yaml:4:7: error[TP3005]" in result.stderr
