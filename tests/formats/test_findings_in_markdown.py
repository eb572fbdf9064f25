"""Markdown: a heading with the counts and a table whose cells no name can leave."""

import re

import pytest

from conftest import linear_model, plan_text
from read_formats import check_text, many_findings, markdown_rows
from test_formats import CASES

MOST_OF_A_COMMENT = 65_536  # characters, GitHub


def checked(folder, model, plan, *flags):
    return check_text(folder, model, plan, *flags, format="markdown").stdout.decode()


def test_no_diagnostics_is_one_line_and_the_unchecked_parts(tmp_path):
    model, plan, *_ = CASES["nothing wrong"]
    heading, empty, unchecked = checked(tmp_path, model, plan).splitlines()
    assert heading == "### tpplan: no diagnostics in <code>plan.yaml</code>" and empty == ""
    assert "were not checked" in unchecked


def test_heading_has_counts_and_each_row_a_help(tmp_path):
    text = checked(tmp_path, *many_findings(2, 1))
    assert text.startswith("### tpplan: 2 errors, 1 warning in <code>plan.yaml</code>\n\n|  | code | where | what |\n")
    rows = markdown_rows(text)
    assert sorted(row[0] for row in rows) == ["error", "error", "warning"] and {"TP4001"} < {row[1] for row in rows}
    assert all("\nhelp: " in row[3] for row in rows if row[0] == "error")


@pytest.mark.parametrize("key", ["a|b", "`a|b`", "</code><b>x", "[x](http://a)", "@someone", "*a*_b_", "a\\|b", "x`y"])
def test_name_cannot_end_a_cell_or_form_a_tag_link_mention(tmp_path, key):
    quoted = "'" + key.replace("'", "''") + "'"
    text = checked(tmp_path, linear_model(w=[8, 8]), plan_text({}) + f"  {quoted}: colwise\n")
    (row, *more) = markdown_rows(text)
    assert len(row) == 4 and not more
    shown = [line for line in text.splitlines() if line.startswith("| ")][1]
    assert not re.search(r"[`*@\[\]()\\]|<(?!/?code>|br>)|://", shown), shown
    assert key.replace("`", "") in row[3].replace("`", "")  # in a sentence backquotes are around names


def test_many_diagnostics_fit_a_comment_and_omitted_are_counted(tmp_path):
    model, plan = many_findings(300, 0)
    text = checked(tmp_path, model, plan.replace("nothing", "n" * 300))
    shown = len(markdown_rows(text))
    assert len(text) < MOST_OF_A_COMMENT and 20 < shown < 300
    assert text.endswith(f"\nand {300 - shown} more\n")
