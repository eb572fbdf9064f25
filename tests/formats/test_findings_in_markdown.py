"""Markdown: a heading with the counts and a table, which no name can break out of."""

import re

import pytest

from conftest import linear_model, plan_text
from read_formats import check_text, many_findings, markdown_rows
from test_formats import CASES

MOST_OF_A_COMMENT = 65_536  # characters, GitHub


def checked(folder, model, plan, *flags):
    return check_text(folder, model, plan, *flags, format="markdown").stdout.decode()


def test_without_findings_it_is_one_line_and_what_was_not_checked(tmp_path):
    model, plan, *_ = CASES["nothing wrong"]
    heading, empty, unchecked = checked(tmp_path, model, plan).splitlines()
    assert heading == "### tpplan: no findings in <code>plan.yaml</code>" and empty == ""
    assert "were not checked" in unchecked


def test_the_heading_counts_and_each_finding_is_a_row_with_its_help(tmp_path):
    text = checked(tmp_path, *many_findings(2, 1))
    assert text.startswith("### tpplan: 2 errors, 1 warning in <code>plan.yaml</code>\n\n|  | code | where | what |\n")
    rows = markdown_rows(text)
    assert sorted(row[0] for row in rows) == ["error", "error", "warning"] and {"TP4001"} < {row[1] for row in rows}
    assert all("\nhelp: " in row[3] for row in rows if row[0] == "error")


@pytest.mark.parametrize("key", ["a|b", "`a|b`", "</code><b>x", "[x](http://a)", "@someone", "*a*_b_", "a\\|b", "x`y"])
def test_a_name_ends_no_cell_and_is_no_tag_link_or_mention(tmp_path, key):
    quoted = "'" + key.replace("'", "''") + "'"
    text = checked(tmp_path, linear_model(w=[8, 8]), plan_text({}) + f"  {quoted}: colwise\n")
    (row, *more) = markdown_rows(text)
    assert len(row) == 4 and not more
    shown = [line for line in text.splitlines() if line.startswith("| ")][1]
    assert not re.search(r"[`*@\[\]()\\]|<(?!/?code>|br>)|://", shown), shown
    assert key.replace("`", "") in row[3].replace("`", "")  # in a sentence names stand between them


def test_many_findings_fit_a_comment_and_what_is_left_out_is_counted(tmp_path):
    model, plan = many_findings(300, 0)
    text = checked(tmp_path, model, plan.replace("nothing", "n" * 300))
    shown = len(markdown_rows(text))
    assert len(text) < MOST_OF_A_COMMENT and 20 < shown < 300
    assert text.endswith(f"\nand {300 - shown} more\n")
