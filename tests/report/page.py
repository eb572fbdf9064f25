"""Parses a report strictly: a tree of elements without a browser's repairs, so that an unclosed element is an error."""

import html.parser
import re

VOID = {"meta", "line", "rect", "path", "br", "img", "link", "input", "circle"}


class Element:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent, self.children = tag, attributes, parent, []

    def text(self):
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)

    def words(self):
        return " ".join(self.text().split())

    def all(self, tag=None, style=None):
        for child in self.children:
            if isinstance(child, str):
                continue
            if (tag is None or child.tag == tag) and (
                style is None or style in child.attributes.get("class", "").split()
            ):
                yield child
            yield from child.all(tag, style)

    def one(self, tag=None, style=None):
        return next(self.all(tag, style))


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = self.open = Element("", {}, None)

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), f"an attribute of <{tag}> stands twice"
        element = Element(tag, {k: v or "" for k, v in attributes}, self.open)
        self.open.children.append(element)
        if tag not in VOID:
            self.open = element

    def handle_startendtag(self, tag, attributes):
        assert tag in VOID, tag
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        assert self.open.tag == tag, f"</{tag}> closes <{self.open.tag}>"
        self.open = self.open.parent

    def handle_data(self, data):
        self.open.children.append(data)


def read_page(data):
    reader = Reader()
    reader.feed(data.decode("utf-8"))
    reader.close()
    assert reader.open is reader.root, f"<{reader.open.tag}> is not closed"
    return reader.root


def section(page, name):
    return next(s for s in page.all("section") if s.attributes.get("id") == name)


def table(element, caption):
    """Returns the rows of the table with this caption: {row header: [cells]}, as Elements."""
    found = next(t for t in element.all("table") if t.one("caption").text().startswith(caption))
    rows = {}
    for row in found.one("tbody").all("tr"):
        cells = [c for c in row.children if not isinstance(c, str)]
        rows.setdefault(cells[0].words(), []).append(cells[1:])
    return {key: value[0] if len(value) == 1 else value for key, value in rows.items()}


def value(element):
    """Returns the exact number of a <data> element."""
    return int(element.one("data").attributes["value"])


def number(element):
    return int(element.words().replace(",", ""))


def interval(text):
    begin, end = text.split(":")
    return int(begin), int(end)


def ranks(text):
    """Returns the ranks of a cell that lists all of them."""
    assert "more" not in text
    runs = [part.split("–") for part in text.split(", ")]
    return [rank for run in runs for rank in range(int(run[0]), int(run[-1]) + 1)]


def pattern_paths(text):
    """Returns every path that a pattern with numbers in braces matches."""
    match = re.search(r"\{([^{}]*)\}", text)
    if not match:
        return [text]
    numbers = []
    for part in match.group(1).split(", "):
        ends = part.split("..")
        numbers += (
            [str(n) for n in range(int(ends[0]), int(ends[-1]) + 1)] if part.replace("..", "").isdigit() else [part]
        )
    return [path for n in numbers for path in pattern_paths(text[: match.start()] + n + text[match.end() :])]


def listed_paths(element):
    return [path for item in element.all("li") for path in pattern_paths(item.one("code").text())]


def groups(page):
    """Returns the groups in the section of shards: (paths, {cell: ranks}); a cell is an interval for each dim."""
    for group in section(page, "shards").all("details"):
        paths = listed_paths(next(ul for ul in group.all("ul")))
        cells = {}
        for grid in group.all("table", "grid"):
            fixed = {int(d): interval(i) for d, i in re.findall(r"dim (\d+) (\d+:\d+)", grid.one("caption").text())}
            heads = list(grid.one("thead").all("th")) if any(grid.all("thead")) else []
            dims = (
                [int(d) for d in re.findall(r"dim (\d+)", heads[0].text())]
                if heads
                else [d for d in (0,) if d not in fixed]
            )
            for row in grid.one("tbody").all("tr"):
                for k, cell in enumerate(row.all("td")):
                    place = dict(fixed)
                    if row.one("th").text() != "scalar":
                        place[dims[0]] = interval(row.one("th").text())
                    if heads:
                        place[dims[1]] = interval(heads[1 + k].text())
                    key = tuple(place[d] for d in sorted(place))
                    assert key not in cells
                    cells[key] = ranks(cell.text())
        yield paths, cells, group


def percent(element, name):
    return float(element.attributes[name].rstrip("%"))


def pieces(page):
    """Returns the tensors in the picture of the model: (words, share of the area, style, link). An area is a share of
    the model's bytes.
    """
    picture = section(page, "model").one("svg", "model")
    for column in picture.children:
        if isinstance(column, str):
            continue
        for link in column.children:
            if isinstance(link, str) or link.tag != "a":
                continue
            cell = link.one("svg")
            share = percent(column, "width") / 100 * float(cell.attributes["height"]) / 288
            yield cell.one("title").text(), share, cell.one("rect").attributes["class"], link.attributes["href"][1:]


def piece_paths(words):
    """Returns every path that a tensor's words match, with `*` for a number."""
    return pattern_paths(words.split(": ")[0])
