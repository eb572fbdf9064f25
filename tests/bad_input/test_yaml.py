"""Broken and hostile YAML: an unreadable plan ends with exit status 2, a code and a place."""

import pytest
from promise import HEAD, PLAN, case, hold

RULES = HEAD + "mesh: {tp: 4}\ntp_plan:\n"  # rules start on line 4


def lists(depth):
    return "".join(f"{' ' * 2 * i}-\n" for i in range(depth))


def bomb(levels, width=10):
    """Each level names the previous one `width` times: the last one expands to width ** levels values."""
    text = ["&l0 [" + ", ".join(["tp"] * width) + "]"]
    for i in range(1, levels):
        text.append(f"&l{i} [" + ", ".join([f"*l{i - 1}"] * width) + "]")
    return text


def bomb_in_specs():
    return RULES + "".join(f"  w{i}: {text}\n" for i, text in enumerate(bomb(9)))


def bomb_in_unknown_keys():
    return RULES + "  wq: colwise\n" + "".join(f"x{i}: {text}\n" for i, text in enumerate(bomb(9)))


def shared_rules_in_blocks():
    """2,000 blocks that share one map of 2,000 rules by an alias: four million rules from 60 KB."""
    rules = ", ".join(f"a{i}: colwise" for i in range(2000))
    return HEAD + "mesh: {tp: 4}\nblocks:\n  b: &r {" + rules + "}\n" + "".join(f"  b{i}: *r\n" for i in range(2000))


EMPTY = [
    case("01-empty-file", "", 2, "TP1008", (1, 1), "empty"),
    case("01-one-line-break", "\n", 2, "TP1008", (1, 1)),
    case("01-blanks", "  \n\n   \n", 2, "TP1008", (1, 1)),
    case("02-only-a-comment", "# to be written\n", 1, "TP3010", (1, 1)),
    case("02-only-comments", "\n  # a\n# b", 1, "TP3010", (1, 1)),
    case("02-null", "null\n", 2, "TP3003", (1, 1)),
    case("02-empty-map", "{}\n", 2, "TP3001", (1, 1)),
    case("02-no-rules", HEAD + "mesh: {tp: 4}\ntp_plan: {}\n", 1, "TP3010", (3, 10)),
    case("02-null-rules", HEAD + "mesh: {tp: 4}\ntp_plan:\n", 1, "TP3010"),
]

SYNTAX = [
    case("03-comma", ",", 2),
    case("03-comma-line", ",\n", 2),
    case("03-bracket-comma", "],", 2),
    case(
        "04-quoted-line-inside-plain-text",
        RULES + '  w:\n    (a = 1 and b in (\n"/usr/local/bin/a.sh",\n    "-c x"\n    )  )\n',
        2,
    ),
    case("04-flow-key-without-value", "{:", 2),
    case("04-bracket-colon", "[:", 2),
    case("12-unquoted-glob", RULES + "  *.wq: colwise\n", 2, "TP1004", (4, 3), "quote patterns that start with `*`"),
    case("12-unquoted-glob-alone", RULES + "  *: colwise\n", 2, "TP1004", (4, 3), "quote patterns that start with `*`"),
    case(
        "12-unquoted-glob-as-a-value", RULES + "  wq: *.x\n", 2, "TP1004", (4, 7), "quote patterns that start with `*`"
    ),
    case("15-tab-before-key", RULES + "\twq: colwise\n", 2, "TP1004", None, "YAML does not allow tabs"),
    case("15-tab-after-spaces", RULES + "  \twq: colwise\n", 2, "TP1004", None, "YAML does not allow tabs"),
    case("20-key-of-2000-bytes", RULES + "  " + "w" * 2000 + ": colwise\n", 2, "TP1004"),
    case("20-key-over-two-lines", RULES + '  "w\n    q": colwise\n', 2, "TP1004"),
    case("26-unclosed-bracket", RULES + "  wq: [tp, null\n", 2),
    case("26-unclosed-brace", RULES + "  wq: {style: colwise\n", 2, "TP1004"),
    case("26-unclosed-double-quote", RULES + '  "wq: colwise\n', 2, "TP1004"),
    case("26-unclosed-single-quote", RULES + "  'wq: colwise\n", 2, "TP1004"),
    case("26-closing-bracket-alone", RULES + "  wq: ]\n", 2, "TP1004"),
    case("26-wrong-closing-bracket", RULES + "  wq: [tp}\n", 2, "TP1004"),
    case("26-bad-escape", RULES + '  "w\\q": colwise\n', 2, "TP1004"),
    case("26-key-without-colon", RULES + "  wq colwise\n  wk: colwise\n", 2, "TP1004"),
    case("26-bad-indentation", RULES + "    wq: colwise\n  wk: colwise\n", 2, "TP1004"),
    case("27-alias-without-anchor", RULES + "  wq: *missing\n", 2, "TP1004", (4, 7)),
    case("27-anchor-without-a-name", RULES + "  wq: & colwise\n", 2, "TP1004"),
    case("27-two-anchors", RULES + "  wq: &a &b colwise\n", 2, "TP1004"),
    case("14-two-tags", RULES + "  wq: !!str !!str colwise\n", 2, "TP1004"),
    case("14-bad-directive", "%YAML 1.2 junk\n---\n" + PLAN, 2, "TP1004"),
]

DOCUMENTS = [
    case("05-second-document", PLAN + "---\n" + PLAN, 1, "TP3011", (5, 1)),
    case("05-second-empty-document", PLAN + "---\n", 1, "TP3011"),
    case("05-scalar-behind-the-plan", PLAN + "---\njunk\n", 1, "TP3011"),
    case("06-document-behind-the-end-mark", PLAN + "...\njunk: 1\n", 1, "TP3011"),
    case("06-junk-behind-the-end-mark", PLAN + "...\n}\n", 2),
    case("06-bracket-behind-a-flow-map", "{format: tpplan.plan/1, mesh: {tp: 4}, tp_plan: {wq: colwise}}\n]\n", 2),
    case("06-brace-behind-a-flow-map", "{format: tpplan.plan/1, mesh: {tp: 4}, tp_plan: {wq: colwise}}}\n", 2),
    case(
        "06-text-behind-a-flow-map",
        "{format: tpplan.plan/1, mesh: {tp: 4}, tp_plan: {wq: colwise}}\njunk: 1\n",
        1,
        "TP3011",
        (2, 1),
    ),
]

KEYS = [
    case("07-rule-twice", RULES + "  wq: colwise\n  wq: rowwise\n", 2, "TP1006", (5, 3), "(plan.yaml:4:3)"),
    case("07-same-rule-twice", RULES + "  wq: colwise\n  wq: colwise\n", 2, "TP1006", (5, 3)),
    case("07-section-twice", PLAN + "mesh: {tp: 8}\n", 2, "TP1006", (5, 1), "(plan.yaml:2:1)"),
    case("07-axis-twice", HEAD + "mesh: {tp: 2, tp: 4}\ntp_plan: {wq: colwise}\n", 2, "TP1006", (2, 15)),
    case("07-option-twice", RULES + "  wq: {style: colwise, style: rowwise}\n", 2, "TP1006", (4, 24)),
    case("08-quoted-and-plain", RULES + '  wq: colwise\n  "wq": rowwise\n', 2, "TP1006", (5, 3)),
    case("08-single-and-double-quotes", RULES + "  'wq': colwise\n  \"wq\": rowwise\n", 2, "TP1006", (5, 3)),
    case("08-escaped", RULES + '  wq: colwise\n  "\\x77q": rowwise\n', 2, "TP1006", (5, 3)),
    case("08-by-alias", RULES + "  &k wq: colwise\n  *k : rowwise\n", 2, "TP1006"),
    case("13-merge-key", HEAD + "mesh: &m {tp: 4}\ntp_plan:\n  <<: *m\n", 2, "TP1011", (4, 3)),
    case("21-list-as-a-key", RULES + "  [wq, wk]: colwise\n", 2, "TP1011"),
    case("21-map-as-a-key", RULES + "  {wq: wk}: colwise\n", 2, "TP1011"),
    case("21-explicit-list-key", RULES + "  ? [wq]\n  : colwise\n", 2, "TP1011"),
    case("21-null-key", RULES + "  ~: colwise\n", 2, "TP1011"),
    case("21-missing-key", RULES + "  : colwise\n", 2, "TP1011"),
]

ALIASES = [
    case("09-alias-of-itself-in-a-map", HEAD + "mesh: {tp: 4}\ntp_plan: &a\n  wq: *a\n", 2, "TP1011", (4, 7)),
    case("09-alias-of-itself-in-a-list", RULES + "  wq: &a [*a]\n", 2, "TP1011", (4, 11)),
    case("09-alias-of-the-whole-file", "&a\n" + RULES + "  wq: *a\n", 2, "TP1011", (5, 7)),
    case("10-alias-bomb-in-specs", bomb_in_specs, 2),
    case("10-alias-bomb-in-unknown-keys", bomb_in_unknown_keys, 2, "TP1007"),
]

TAGS = [
    case("14-python-object", RULES + "  wq: !!python/object/apply:os.system [ls]\n", 2, "TP1011", (4, 7)),
    case("14-unknown-local-tag", RULES + "  wq: !secret colwise\n", 2, "TP1011", (4, 7)),
    case("14-unknown-core-tag", RULES + "  wq: !!binary Y29sd2lzZQ==\n", 2, "TP1011"),
    case("14-tag-uri", RULES + "  wq: !<tag:example.com,2000:x> colwise\n", 2, "TP1011"),
    case("14-tag-on-a-map", RULES + "  wq: !x {style: colwise}\n", 2, "TP1011"),
    case("14-tag-on-a-list", RULES + "  wq: !x [tp, null]\n", 2, "TP1011"),
    case("14-tag-on-a-key", RULES + "  !x wq: colwise\n", 2, "TP1011"),
    case("14-tag-on-nothing", RULES + "  wq: !x\n", 2),
]

DEPTH = [
    case("11-depth-500", lists(500), 2, "TP1007"),
    case("11-depth-500-flow", "[" * 500 + "]" * 500, 2, "TP1007", (1, 65)),
    case("11-depth-100000", "[" * 100_000, 2, "TP1007"),
    case("11-depth-100000-braces", "{" * 100_000, 2, "TP1007"),
    case("11-depth-100000-maps", "{a: " * 100_000, 2, "TP1007"),
    case("11-depth-100000-lines", "- " * 100_000, 2, "TP1007"),
    case("11-depth-500-inside-a-rule", RULES + "  wq: " + "[" * 500 + "]" * 500 + "\n", 2, "TP1007"),
]

BYTES = [
    case("16-nul", RULES.encode() + b"  w\0q: colwise\n", 2, "TP1005", (4, 4)),
    case("16-nul-in-a-comment", PLAN.encode() + b"# \0\n", 2, "TP1005", (5, 3)),
    case("16-only-nuls", bytes(1000), 2, "TP1005", (1, 1)),
    case("17-invalid-utf8", RULES.encode() + b"  w\xff: colwise\n", 2, "TP1005", (4, 4)),
    case("17-latin-1", RULES.encode() + "  wé: colwise\n".encode("latin-1"), 2, "TP1005", (4, 4)),
    case("17-overlong", RULES.encode() + b"  w\xc0\xaf: colwise\n", 2, "TP1005", (4, 4)),
    case("17-encoded-surrogate", RULES.encode() + b"  w\xed\xa0\x80: colwise\n", 2, "TP1005", (4, 4)),
    case("17-beyond-unicode", RULES.encode() + b"  w\xf4\x90\x80\x80: colwise\n", 2, "TP1005", (4, 4)),
    case("17-cut-off-character", PLAN.encode() + b"# \xe2\x82", 2, "TP1005", (5, 3)),
    case("18-byte-order-mark", b"\xef\xbb\xbf" + PLAN.encode(), 2, "TP1005", (1, 1), "byte order mark"),
    case("18-utf-16-le", PLAN.encode("utf-16"), 2, "TP1005", (1, 1), "UTF-16"),
    case("18-utf-16-be", b"\xfe\xff" + PLAN.encode("utf-16-be"), 2, "TP1005", (1, 1), "UTF-16"),
    case("18-utf-16-without-mark", PLAN.encode("utf-16-le"), 2, "TP1005", (1, 2)),
    case("18-utf-32-le", b"\xff\xfe\0\0" + PLAN.encode("utf-32-le"), 2, "TP1005", (1, 1)),
    case("29-raw-escape-character", RULES.encode() + b'  "w\x1b[2J": colwise\n', 2, "TP1005", (4, 5)),
    case("29-raw-bell", RULES.encode() + b"  w\x07q: colwise\n", 2, "TP1005", (4, 4)),
    case("29-raw-delete", RULES.encode() + b"  w\x7fq: colwise\n", 2, "TP1005", (4, 4)),
]

SIZES = [
    case("22-larger-than-the-limit", lambda: PLAN.encode() + b" " * (8 << 20), 2, "TP1002", (1, 1), "8.00 MiB"),
    case("22-64-mb-and-one-byte", lambda: b" " * ((64 << 20) + 1), 2, "TP1002", (1, 1)),
    case("28-line-of-10-mb", lambda: RULES + "  " + "w" * (10 << 20) + ": colwise\n", 2, "TP1002"),
    case("28-key-of-7-mb", lambda: RULES + "  " + "w" * (7 << 20) + ": colwise\n", 2, "TP1004"),
    case("28-unclosed-quote-of-7-mb", lambda: RULES + '  "' + "w" * (7 << 20), 2, "TP1004"),
    case("28-more-values-than-the-limit", lambda: RULES + "  wq: [" + "a," * 600_000 + "]\n", 2, "TP1007"),
]

NUMBERS = [
    case(
        "23-quoted-axis-size",
        HEAD + "mesh: {tp: '4'}\ntp_plan: {wq: colwise}\n",
        2,
        "TP3009",
        (2, 12),
        "remove the quotes",
    ),
    case("23-double-quoted-axis-size", HEAD + 'mesh: {tp: "4"}\ntp_plan: {wq: colwise}\n', 2, "TP3009", (2, 12)),
    case("23-tagged-as-text", HEAD + "mesh: {tp: !!str 4}\ntp_plan: {wq: colwise}\n", 2, "TP3009"),
    *[
        case(f"24-style-{word}", RULES + f"  wq: {word}\n", 2, "TP3003", (4, 7))
        for word in ("no", "off", "Yes", "true", "1e3")
    ],
    *[case(f"24-quoted-style-{word}", RULES + f"  wq: '{word}'\n", 1, "TP3005", (4, 7)) for word in ("no", "off")],
    *[
        case(f"25-axis-size-{size}", HEAD + f"mesh: {{tp: {size}}}\ntp_plan: {{wq: colwise}}\n", 2, "TP3009")
        for size in (
            "017",
            "0o17",
            "0x1F",
            "1e3",
            "4.0",
            ".nan",
            ".inf",
            "-.inf",
            "-1",
            "0",
            "-0",
            "+4",
            "1_000",
            "4 4",
            "null",
            "true",
            "[4]",
            "{a: 4}",
            str(2**31),
            str(2**63),
            str(2**64),
            "9" * 400,
        )
    ],
    case(
        "25-axes-multiply-beyond-the-limit", HEAD + "mesh: {a: 65536, b: 65536}\ntp_plan: {wq: colwise}\n", 2, "TP3009"
    ),
    case(
        "25-axes-multiply-to-zero-in-64-bits",
        HEAD + "mesh: {a: 2147483648, b: 2147483648, c: 4}\ntp_plan: {wq: colwise}\n",
        2,
        "TP3009",
    ),
    case("25-mesh-without-axes", HEAD + "mesh: {}\ntp_plan: {wq: colwise}\n", 2, "TP3009"),
    case("25-mesh-is-a-list", HEAD + "mesh: [4]\ntp_plan: {wq: colwise}\n", 2, "TP3003", (2, 7)),
    case("25-mesh-is-missing", HEAD + "tp_plan: {wq: colwise}\n", 2, "TP3002"),
    case("25-axis-with-an-empty-name", HEAD + "mesh: {'': 4}\ntp_plan: {wq: colwise}\n", 2, "TP3009"),
    case(
        "25-more-axes-than-the-limit",
        HEAD + "mesh: {" + ", ".join(f"a{i}: 1" for i in range(33)) + "}\ntp_plan: {wq: colwise}\n",
        2,
        "TP3009",
    ),
    *[
        case(
            f"25-min-weight-size-{size}",
            PLAN.replace("{tp: 4}", "{tp: 4, fsdp: 2}") + f"fsdp: {{min_weight_size: {size}}}\n",
            2,
            "TP3003",
        )
        for size in ("-1", "1.5", "1e6", "'4'", str(2**63))
    ],
]

VERSIONS = [
    case("46-format-missing", "mesh: {tp: 4}\ntp_plan: {wq: colwise}\n", 2, "TP3001"),
    case("46-format-newer", PLAN.replace("plan/1", "plan/2"), 2, "TP3001", (1, 9), "newer"),
    case("46-format-of-a-model", PLAN.replace("tpplan.plan", "tpplan.model"), 2, "TP3001", (1, 9)),
    case("46-format-a-number", PLAN.replace("tpplan.plan/1", "1"), 2, "TP3001", (1, 9)),
    case("46-format-a-list", PLAN.replace("tpplan.plan/1", "[tpplan.plan/1]"), 2, "TP3003", (1, 9)),
    case("46-format-null", PLAN.replace("tpplan.plan/1", ""), 2, "TP3003"),
]

WRONG_KINDS = [
    case("39-plan-is-a-list", "- wq\n", 2, "TP3003", (1, 1)),
    case("39-plan-is-a-word", "colwise\n", 2, "TP3003", (1, 1)),
    case(
        "39-plan-is-the-model",
        '{"format": "tpplan.model/1", "name": "T", "framework": "torch", "modules": []}',
        2,
        "TP3001",
    ),
    case("39-rules-are-a-list", HEAD + "mesh: {tp: 4}\ntp_plan: [wq]\n", 2, "TP3003", (3, 10)),
    case("39-rules-are-a-word", HEAD + "mesh: {tp: 4}\ntp_plan: auto\n", 2, "TP3003", (3, 10)),
    case("39-blocks-are-a-list", PLAN + "blocks: [a]\n", 2, "TP3003", (5, 9)),
    case("39-block-is-a-word", PLAN + "blocks: {a: colwise}\n", 2, "TP3003", (5, 13)),
    case("39-data-is-a-word", PLAN + "data: tp\n", 2, "TP3003", (5, 7)),
    case("39-fsdp-is-a-word", PLAN + "fsdp: tp\n", 2, "TP3003", (5, 7)),
    case("39-remat-is-a-word", PLAN + "remat: wq\n", 2, "TP3003", (5, 8)),
    case("39-rule-is-null", RULES + "  wq:\n", 2, "TP3003"),
]


@pytest.mark.parametrize("plan, status, code, place, says", EMPTY + SYNTAX + DOCUMENTS + KEYS + ALIASES + TAGS)
def test_broken_yaml_is_rejected_at_its_place(tmp_path, plan, status, code, place, says):
    hold(tmp_path, status, code, plan=plan, file="plan", place=place, says=says)


@pytest.mark.parametrize("plan, status, code, place, says", DEPTH + SIZES)
def test_large_and_deep_yaml_is_rejected(tmp_path, plan, status, code, place, says):
    hold(tmp_path, status, code, plan=plan, file="plan", place=place, says=says)


@pytest.mark.parametrize("plan, status, code, place, says", BYTES)
def test_bytes_other_than_plain_utf8_are_rejected(tmp_path, plan, status, code, place, says):
    hold(tmp_path, status, code, plan=plan, file="plan", place=place, says=says)


@pytest.mark.parametrize("plan, status, code, place, says", NUMBERS + VERSIONS + WRONG_KINDS)
def test_ambiguous_values_are_rejected(tmp_path, plan, status, code, place, says):
    hold(tmp_path, status, code, plan=plan, file="plan", place=place, says=says)


@pytest.mark.parametrize(
    "name, plan",
    {
        "19-crlf": PLAN.replace("\n", "\r\n"),
        "19-cr-only-before-the-end": PLAN.rstrip("\n") + "\r\n",
        "05-start-mark": "---\n" + PLAN,
        "05-end-mark": PLAN + "...\n",
        "05-comment-behind-the-end-mark": PLAN + "...\n# done\n",
        "05-directive": "%YAML 1.2\n---\n" + PLAN,
        "08-alias-of-a-treatment": RULES + "  wq: &c colwise\n  'w[k-z]': {style: *c, optional: true}\n",
        "14-core-tags": RULES + "  !!str wq: !!str colwise\n",
        "27-anchor-that-nothing-names": RULES + "  wq: &unused colwise\n",
        "28-comment-of-7-mb": PLAN + "# " + "x" * (7 << 20) + "\n",
        "28-blanks-of-7-mb": PLAN + " " * (7 << 20) + "\n",
        "02-flow-style": "{format: tpplan.plan/1, mesh: {tp: 4}, tp_plan: {wq: colwise}}",
        "02-json": '{"format": "tpplan.plan/1", "mesh": {"tp": 4}, "tp_plan": {"wq": "colwise"}}\n',
        "02-block-scalars": HEAD + "mesh: {tp: 4}\ntp_plan:\n  ? |-\n    wq\n  : >-\n    colwise\n",
        "02-no-line-break-at-the-end": PLAN.rstrip("\n"),
        "20-key-of-1000-bytes": RULES + "  wq: colwise\n  " + "w" * 1000 + ": {style: colwise, optional: true}\n",
        "25-axis-of-size-one-beside": PLAN.replace("{tp: 4}", "{dp: 1, tp: 4}"),
        "25-largest-mesh": PLAN.replace("tp: 4", f"tp: {2**30}").replace("wq: colwise", "wq: replicate"),
    }.items(),
    ids=lambda value: value[:40] if isinstance(value, str) and "\n" not in value and "{" not in value else "",
)
def test_unusual_but_legal_yaml_is_accepted(tmp_path, name, plan):
    result = hold(tmp_path, 0, plan=plan)
    assert [p["path"] for p in result.manifest["parameters"]] == ["wq.weight"], name
    if "largest" not in name:
        assert result.manifest["parameters"][0]["spec"] == ["tp", None], name


def test_crlf_and_lf_give_the_same_manifest(tmp_path):
    manifests = [hold(tmp_path, 0, plan=PLAN.replace("\n", end)).manifest for end in ("\n", "\r\n")]
    for manifest in manifests:
        del manifest["inputs"], manifest["digest"]  # the hash of the plan's bytes, and the digest
    assert manifests[0] == manifests[1]


@pytest.mark.parametrize(
    "key, shown",
    [
        (r"w\e[2Jq", r"w\x1b[2Jq"),
        (r"w\x07q", r"w\x07q"),
        (r"w\nq", r"w\nq"),
        (r"w\rq", r"w\x0dq"),
        (r"w\tq", r"w\tq"),
        (r"w\x7fq", r"w\x7fq"),
        (r"w\x9b2Jq", r"w\x9b2Jq"),
        (r"w\u202eq", r"w\u202eq"),
        (r"w\u2066q", r"w\u2066q"),
        (r"w\0q", r"w\x00q"),
    ],
    ids=[
        "29-ansi",
        "29-bell",
        "29-line-break",
        "29-return",
        "29-tab",
        "29-delete",
        "29-c1",
        "29-override",
        "29-isolate",
        "29-nul",
    ],
)
def test_control_characters_in_a_rule_are_escaped(tmp_path, key, shown):
    result = hold(tmp_path, 1, "TP4001", plan=RULES + f'  "{key}": colwise\n', file="plan", place=(4, 3))
    assert f"`{shown}`" in result.stderr.decode()


def test_aliased_blocks_may_not_expand_to_millions_of_rules(tmp_path):
    result = hold(tmp_path, 2, plan=shared_rules_in_blocks)
    assert len(result.stderr) < 100_000


def test_plan_with_thousands_of_errors_is_reported_shortly(tmp_path):
    """Reporting each of 100,000 wrong rules must not take quadratic time."""
    rules = "".join(f"  w{i}: colwize\n" for i in range(100_000))
    result = hold(tmp_path, 1, "TP3005", plan=RULES + rules, place=(4, 7))
    assert len(result.stderr) < 1_000_000
