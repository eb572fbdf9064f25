"""Prints the table of tools/scripts/coverage: coverage_table.py SUMMARY, where SUMMARY is the output of gcovr
--json-summary. One row per folder, those with the lowest line coverage first, and the total last.
"""

import collections
import json
import pathlib
import sys

COLUMNS = ("lines", "branches")


def share(covered, total):
    return f"{covered / total:.1%}" if total else "-"


def rows_of(files):
    """Returns [(folder, {column: (covered, total)})] of gcovr's entries; the last row is the total."""
    folders = collections.defaultdict(lambda: {column: (0, 0) for column in COLUMNS})
    for entry in files:
        for folder in (str(pathlib.PurePosixPath(entry["filename"]).parent), "all"):
            for column, name in zip(COLUMNS, ("line", "branch"), strict=True):
                covered, total = folders[folder][column]
                folders[folder][column] = (covered + entry[f"{name}_covered"], total + entry[f"{name}_total"])
    whole = folders.pop("all", None)
    ordered = sorted(folders.items(), key=lambda row: (row[1]["lines"][0] / max(1, row[1]["lines"][1]), row[0]))
    return ordered + ([("all", whole)] if whole else [])


def table_of(files):
    lines = ["| folder | lines | of | branches | of |", "|---|---|---|---|---|"]
    for folder, counts in rows_of(files):
        cells = [text for column in COLUMNS for text in (share(*counts[column]), str(counts[column][1]))]
        lines.append(f"| {folder} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table_of(json.loads(pathlib.Path(sys.argv[1]).read_text())["files"]))
