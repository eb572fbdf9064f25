"""tpplan diff --format markdown: tables whose cells no name can leave, short enough for a comment."""

import html
import re

import pytest

from conftest import ROOT, linear_model, run
from sides import RULES, compile_sides

LAYERS = 6
MODEL = linear_model(embed=[64, 8], **{f"layers__{i}__{name}": [8, 8] for i in range(LAYERS) for name in ("a", "b")})
# The limit of a comment on GitHub.
MOST_CHARACTERS = 65_536
CODE = re.compile(r"<code>([^<>|`\n]*)</code>")
# All text other than names.
PLAIN = re.compile(r"[\w .,:;%()→—-]*(?:<br>[\w .,:;%()→—-]*)*")


@pytest.fixture
def markdown(tmp_path):
    """markdown(old rules, new rules): the text, after a check of every line, and the exit status."""

    def compare(old, new, model=MODEL, new_model=None, **settings):
        files = compile_sides(tmp_path, old, new, model, new_model, **settings)
        result = run("diff", *files, "--format", "markdown", "--color", "always")
        assert result.stderr == b"" and result.returncode == run("diff", *files).returncode
        text = result.stdout.decode()
        assert (
            text.startswith("### ") and text.splitlines()[0][4:] == run("diff", *files).stdout.decode().splitlines()[0]
        )
        tables(text)
        return text

    return compare


def tables(text):
    """{title: rows}, each cell as displayed; fails if a line is not part of a known table."""
    assert len(text) <= MOST_CHARACTERS and "\x1b" not in text
    found, rows = {}, None
    for line in text.splitlines()[1:]:
        if line.startswith("**"):
            rows = found[line.strip("*")] = []
        elif line.startswith("|"):
            cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
            if set(line) <= set("|-:"):
                assert line.count("|") == len(rows[0]) + 1
                continue
            assert line.count("|") == len(cells) + 1 and (not rows or len(cells) == len(rows[0]))
            assert all(PLAIN.fullmatch(CODE.sub("", cell)) for cell in cells), line
            rows.append([html.unescape(CODE.sub(r"\1", cell).replace("<br>", "\n")) for cell in cells])
        else:
            assert re.fullmatch(r"|and \d+ more", line), line
    return found


def test_full_text_of_a_small_difference(markdown):
    text = markdown(RULES, RULES | {"layers.3.b": "replicate"})
    assert text == (
        "### 1 of 13 parameters differs, 1 of 13 module boundaries differs; 1.25 KiB -> 1.44 KiB per rank\n"
        "\n**Rules**\n\n|  | rule | matched | matches |\n|---|---|---:|---:|\n| added | <code>layers.3.b</code> |  | 1 |\n"
        "\n**Parameters: 1 changed, 0 added, 0 removed**\n\n|  | path | changed fields |\n|---|---|---|\n"
        "| changed | <code>layers.3.b.weight</code> (1 of 6) | "
        "spec <code>&#91;null, tp&#93;</code> → <code>&#91;null, null&#93;</code><br>"
        "placements <code>&#91;Shard&#40;1&#41;&#93;</code> → <code>&#91;Replicate&#93;</code><br>"
        "local_shapes <code>&#91;8, 2&#93;</code> → <code>&#91;8, 8&#93;</code><br>"
        "style <code>rowwise</code> → <code>replicate</code><br>"
        "rule <code>&#96;layers.&#42;.b&#96;</code> → <code>&#96;layers.3.b&#96;</code><br>"
        "replicas <code>1</code> → <code>4</code> |\n"
        "\n**Module boundaries: 1 changed, 0 added, 0 removed**\n\n|  | path | changed fields |\n|---|---|---|\n"
        "| changed | <code>layers.3.b</code> (1 of 6) | style <code>rowwise</code> → <code>replicate</code><br>"
        "rule <code>&#96;layers.&#42;.b&#96;</code> → <code>&#96;layers.3.b&#96;</code><br>"
        "inputs <code>arg 0 &#91;Shard&#40;-1&#41;&#93; to &#91;Shard&#40;-1&#41;&#93;</code> → <code>none</code><br>"
        "outputs <code>arg 0 &#91;Partial&#40;sum&#41;&#93; to &#91;Replicate&#93;, forward all_reduce over tp, as a local tensor</code>"
        " → <code>none</code> |\n"
        "\n**Collectives**\n\n| collective | axis | before | after |\n|---|---|---:|---:|\n"
        "| forward <code>all_reduce</code> | <code>tp</code> | 6 | 5 |\n"
        "\n**Bytes**\n\n| bytes of parameters | before | after |\n|---|---:|---:|\n"
        "| fullest rank | 1.25 KiB | 1.44 KiB |\n| emptiest rank | 1.25 KiB | 1.44 KiB |\n| replicated | 0 B | 256 B |\n"
    )


def test_equal_manifests(markdown):
    assert markdown(RULES, RULES) == "### the manifests are equal: 13 parameters, 1.25 KiB per rank\n"


def test_every_changed_section_is_printed(markdown):
    smaller = linear_model(embed=[64, 8], **{f"layers__{i}__a": [8, 8] for i in range(LAYERS)})
    found = tables(markdown(RULES, {"embed": "colwise", "layers.*.[a]": "rowwise"}, new_model=smaller, mesh="{tp: 2}"))
    assert found["Settings"][1][0] == "mesh"
    assert ["renamed", "layers.*.[a], was layers.*.a", "6", "6"] in found["Rules"] and [
        "removed",
        "layers.*.b",
        "6",
        "",
    ] in found["Rules"]
    (parameters,) = [
        rows for title, rows in found.items() if title.startswith("Parameters: 7 changed, 0 added, 6 removed")
    ]
    assert [
        "removed",
        "layers.{0..5}.b.weight (6)",
        "shape [8, 8]\ndtype float32\nspec [null, tp]\nstyle rowwise",
    ] in parameters


def test_calls_of_a_step(tmp_path):
    for name, plan in (("old", "llama"), ("new", "llama-fsdp-tp")):
        assert (
            run(
                "compile",
                ROOT / "plans/models/llama-3-8b.json",
                ROOT / f"plans/{plan}.yaml",
                "-q",
                "-o",
                tmp_path / name,
            ).returncode
            == 0
        )
    found = tables(run("diff", tmp_path / "old", tmp_path / "new", "--format", "markdown").stdout.decode())
    (calls,) = [rows for title, rows in found.items() if title.startswith("Calls of a step: ")]
    assert calls[0] == ["call", "axis", "module", "before", "after"] and len(calls) > 2


HOSTILE = [
    "a|b",
    "a\\|b",
    "a`b``c",
    "</code></table><script>alert(1)</script>",
    "a\n\n# b",
    "[x](https://example/org)",
    "![x](https://example/a)",
    "@somebody #1 ~~x~~ **x** _x_ $x$",
    "&#124;&lt;b&gt;",
    "<!--",
    "a\u202e\x1b[1;31mb",
    "\n::error::x",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_name_cannot_leave_its_cell(markdown, name):
    model = {
        "format": "tpplan.model/1",
        "name": name,
        "framework": "torch",
        "modules": [{"path": "m", "type": "Linear", "parameters": {name: {"shape": [8, 8], "dtype": "float32"}}}],
    }
    text = markdown({"m.*": "[tp, null]"}, {"m.*": "[null, tp]"}, model)
    assert not re.search(r"https?:|<script|<!--|\]\(|@s|#1 |\*\*x|^::", text, re.MULTILINE)
    shown = name.replace("\n", "\\n").replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    assert any("m." + shown in row[1] for rows in tables(text).values() for row in rows)


def test_paths_beyond_the_limit_of_a_cell_are_counted(markdown):
    model = linear_model(**{f"{'|' * 40}{i}x": [8, 8] for i in range(600)})
    text = markdown({"*": "colwise"}, {"*": "replicate"}, model)
    assert "and 594 more" in text and text.count("<code>" + "&#124;" * 40) == 2 * 6, "parameters and modules"


def test_groups_beyond_the_limit_of_a_comment_are_counted(markdown):
    model = linear_model(**{f"{'|' * 40}{i}x": [8 * (i + 1), 8] for i in range(600)})
    text = markdown({"*": "colwise"}, {"*": "replicate"}, model)
    (rows,) = [rows for title, rows in tables(text).items() if title.startswith("Parameters")]
    assert len(rows) > 5 and f"and {600 - len(rows[1:])} more" in text
