"""The report in a real browser: no scripts, no requests, it fits, opens by click and key, and has a dark theme."""

import re
import struct
import zlib

import pytest
from chromium import PROGRAM, Browser
from conftest import ROOT, run
from page import groups, pieces, read_page
from report_cases import CASES, SHOWN, compile_files, difficult, search_folder, search_words

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="chromium is not installed: tools/scripts/install-packages browser"
)

WIDTHS = [400, 1280]
LAYOUTS = [("", 400), ("", 1280), ("print", 700)]  # a phone, a desktop, and A4 paper with margins
H100 = ROOT / "plans" / "topologies" / "h100.yaml"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Reports by case, and one with differences."""
    folder, paths = tmp_path_factory.mktemp("pages"), {}
    for name in ("difficult", "llama", "mixtral"):
        (folder / name).mkdir()
        manifest = CASES[name](folder / name)
        paths[name] = folder / name / "page.html"
        more = ["--topology", H100] if name == "llama" else []
        assert run("report", manifest, *more, "-o", paths[name]).returncode == 0
    (folder / "old").mkdir()
    old = {"changes": difficult(folder / "old")}
    old["meshes"] = compile_files(
        folder / "old",
        ROOT / "plans/models/llama-3-8b.json",
        ROOT / "plans/llama.yaml",
        "--mesh",
        "tp=8",
        name="llama.json",
    )
    (folder / "run.yaml").write_text("format: tpplan.run/1\nbatch: 2\naccumulation: 8\n")
    step = [ROOT / "plans/models/llama-3-8b.json", ROOT / "plans/llama-fsdp-tp.yaml", "--run", folder / "run.yaml"]
    for name, more in {"step": [], "steps": ["--against", ROOT / "plans/llama.yaml"]}.items():
        paths[name] = folder / f"{name}.html"
        assert run("report", *step, "--topology", H100, *more, "-o", paths[name]).returncode == 0
    (folder / "search").mkdir()
    paths["search"] = search_folder(folder / "search") / "page.html"
    searched = run(*search_words(), "--report", "page.html", "-o", "best.yaml", cwd=folder / "search")
    assert searched.returncode == 0
    for name, before in old.items():
        paths[name] = folder / f"{name}.html"
        words = [folder / "llama" / "manifest.json", "--against", before, "--topology", H100]
        assert run("report", *words, "-o", paths[name]).returncode == 0
    return paths


def pixels(png, count):
    """Width, height and the first rows of a PNG of 8 bits a channel, as tuples."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, data, width, height, channels = 8, b"", 0, 0, 0
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, color = struct.unpack(">IIBB", body[:10])
            channels = {2: 3, 6: 4}[color]
            assert depth == 8
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    raw, rows, above = zlib.decompress(data), [], bytes(width * channels)
    for y in range(min(count, height)):
        begin = y * (width * channels + 1)
        filtered, line = raw[begin], bytearray(raw[begin + 1 : begin + 1 + width * channels])
        for i in range(len(line)):
            left = line[i - channels] if i >= channels else 0
            corner = above[i - channels] if i >= channels else 0
            guess = left + above[i] - corner
            paeth = min((left, above[i], corner), key=lambda v: abs(guess - v))
            line[i] = (line[i] + (0, left, above[i], (left + above[i]) // 2, paeth)[filtered]) & 255
        above = bytes(line)
        rows.append([tuple(line[i : i + 3]) for i in range(0, len(line), channels)])
    return width, height, rows


def brightness(color):
    return sum(color) / 3


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["difficult", "llama", "mixtral", "changes", "step", "steps", "search"])
def test_page_fits_and_is_drawn(browser, pages, name, width, dark):
    browser.open(pages[name], width=width, height=600, dark=dark)
    assert browser.evaluate("innerWidth") == width
    for opened in (False, True):
        browser.evaluate(f"document.querySelectorAll('details').forEach(d => d.open = {str(opened).lower()})")
        assert browser.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        wide = browser.evaluate(
            "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, svg')"
            " && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(e => e.outerHTML.slice(0, 80))"
        )
        assert wide == []
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = false); scrollTo(0, 0)")
    shot = browser.screenshot()
    shown_width, shown_height, rows = pixels(shot, 160)
    assert (shown_width, shown_height) == (width, 600)
    background = rows[2][2]
    assert brightness(background) < 60 if dark else brightness(background) > 240
    colors = {color for row in rows[::3] for color in row}
    assert len(colors) > 20 and any(brightness(c) > 180 for c in colors) and any(brightness(c) < 90 for c in colors)


@pytest.fixture(params=LAYOUTS, ids=["phone", "desktop", "print"])
def laid(request, browser):
    """Opens a page in a layout, with all sections expanded."""
    media, width = request.param

    def opened(page):
        browser.open(page, width=width)
        browser.send("Emulation.setEmulatedMedia", media=media)
        browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        return browser

    yield opened
    browser.send("Emulation.setEmulatedMedia", media="")


PAGES = ["difficult", "llama", "mixtral", "changes", "meshes"]


@pytest.mark.parametrize("name", PAGES)
def test_no_number_is_hidden(laid, pages, name):
    page = laid(pages[name])
    assert (
        page.evaluate("""[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)
      .map(e => `${e.getAttribute('aria-label')}: ${e.scrollWidth} of ${e.clientWidth}`)""")
        == []
    )
    assert (
        page.evaluate("""[...document.querySelectorAll('data, td, dd, .count, .sum')].filter(e => {
      const box = e.getBoundingClientRect();
      return box.width > 0 && (box.left < 0 || box.right > document.documentElement.clientWidth + 1);
    }).map(e => e.textContent)""")
        == []
    )


@pytest.mark.parametrize("name", PAGES)
def test_axis_is_on_one_line(laid, pages, name):
    axes = laid(pages[name]).evaluate("""[...document.querySelectorAll('table')].flatMap(t => {
      const column = [...t.querySelectorAll('thead th')].findIndex(h => h.textContent === 'Axis');
      const cells = [...t.querySelectorAll('tbody tr')].map(row => row.children[column]);
      return cells.map(c => c && c.querySelector('code')).filter(Boolean)
        .map(c => [c.textContent, c.getClientRects().length]);
    })""")
    assert axes and [name for name, lines in axes if lines > 1] == []


@pytest.mark.parametrize("name", PAGES)
def test_columns_of_paths_fit_twelve_characters(browser, laid, pages, name):
    """A monospaced character of 13 pixels is 7.8 pixels wide."""
    widths = laid(pages[name]).evaluate("""[...document.querySelectorAll('tbody .p')].map(e => {
      const style = getComputedStyle(e);
      return e.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    })""")
    scale = browser.evaluate("parseFloat(getComputedStyle(document.documentElement).fontSize) / 16")
    assert not widths or min(widths) >= 12 * 7.8 * scale


@pytest.mark.parametrize("name", ["changes", "meshes"])
def test_picture_is_before_the_changes(browser, pages, name):
    browser.open(pages[name], height=900)
    assert browser.evaluate("document.querySelector('svg.model').getBoundingClientRect().bottom") < 900
    assert browser.evaluate(
        "document.querySelector('#changes').getBoundingClientRect().top"
        " > document.querySelector('svg.model').getBoundingClientRect().bottom"
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["changes", "steps"])
def test_text_has_contrast(browser, pages, name, dark):
    """Every text has a contrast of at least 4.5 to 1 with its background (WCAG 2.2, AA)."""
    browser.open(pages[name], dark=dark)
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    seen = browser.evaluate("""(() => {
      const pairs = {};
      for (const e of document.querySelectorAll('body *')) {
        if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
        let behind = e;
        while (behind && getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
        const back = getComputedStyle(behind || document.documentElement).backgroundColor;
        pairs[getComputedStyle(e).color + '|' + back] = e.outerHTML.slice(0, 100);
      }
      return Object.entries(pairs);
    })()""")
    assert len(seen) >= 8

    def luminance(text):
        channels = [int(c) / 255 for c in re.findall(r"\d+", text)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for pair, example in seen:
        a, b = sorted(map(luminance, pair.split("|")))
        assert (b + 0.05) / (a + 0.05) >= 4.5, (pair, example)


def test_page_runs_no_script_and_loads_nothing(browser, pages):
    browser.open(pages["difficult"])
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.evaluate("document.querySelectorAll('script, img, iframe').length") == 0
    methods = [e["method"] for e in browser.events]
    assert "Page.javascriptDialogOpening" not in methods and "Runtime.exceptionThrown" not in methods
    requests = [e["params"]["request"]["url"] for e in browser.events if e["method"] == "Network.requestWillBeSent"]
    assert requests == [pages["difficult"].as_uri()]
    assert [e["params"]["entry"]["text"] for e in browser.events if e["method"] == "Log.entryAdded"] == []
    assert (
        browser.evaluate(
            "getComputedStyle(document.body).fontVariantNumeric !== undefined && getComputedStyle(document.querySelector('.tiles')).display"
        )
        == "grid"
    )


def test_policy_blocks_an_unescaped_script(browser, pages, tmp_path):
    """The second defence: a script and a style in the page have no effect."""
    text = pages["difficult"].read_text()
    broken = tmp_path / "broken.html"
    broken.write_text(
        text.replace(
            "<main>",
            "<main><script>document.title = 'ran'</script><p id='p' onclick='1' style='color: rgb(1, 2, 3)'>x</p>"
            "<img src=x onerror=\"document.title = 'ran'\">",
        )
    )
    browser.open(broken)
    assert browser.evaluate("document.title") != "ran"
    assert browser.evaluate("getComputedStyle(document.querySelector('#p')).color") != "rgb(1, 2, 3)"
    assert (
        len(
            [
                e
                for e in browser.events
                if e["method"] == "Log.entryAdded" and "Content Security Policy" in e["params"]["entry"]["text"]
            ]
        )
        >= 2
    )


def test_click_opens_a_grid(browser, pages):
    browser.open(pages["difficult"], width=400)
    expected = {tuple(paths): cells for paths, cells, _ in groups(read_page(pages["difficult"].read_bytes()))}
    for i in range(1, len(expected) + 1):
        selector = f"#shards details:nth-of-type({i})"
        grid = f"document.querySelector('{selector} table.grid, {selector} .body p')"
        opened = i <= 2  # the two with the most bytes
        assert browser.evaluate(f"{grid}.checkVisibility()") == opened
        if not opened:
            browser.click(f"{selector} > summary")
        assert browser.evaluate(f"{grid}.checkVisibility() && {grid}.getBoundingClientRect().height > 10")
        cells = list(expected.values())[i - 1]
        assert browser.evaluate(f"document.querySelectorAll('{selector} table.grid td').length") == len(cells)
    browser.click("#shards details:nth-of-type(1) > summary")
    assert not browser.evaluate("document.querySelector('#shards details table').checkVisibility()")


def test_tile_of_the_picture_opens_its_shards(browser, pages):
    browser.open(pages["llama"])
    link = next(href for _, _, _, href in pieces(read_page(pages["llama"].read_bytes())) if href == "shards-3")
    assert not browser.evaluate(f"document.getElementById('{link}').checkVisibility()")
    browser.click(f".model a[href='#{link}'] rect")
    assert browser.evaluate(f"document.getElementById('{link}').checkVisibility()")
    assert browser.evaluate(f"Math.abs(document.getElementById('{link}').getBoundingClientRect().top) < 900")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["difficult", "llama", "mixtral"])
def test_labels_of_the_picture_stay_within_their_tiles(browser, pages, name, width):
    browser.open(pages[name], width=width)
    outside = browser.evaluate(
        "[...document.querySelectorAll('.model text')].filter(t => t.checkVisibility()"
        " && getComputedStyle(t).display != 'none'"
        " && t.getBoundingClientRect().right > t.ownerSVGElement.getBoundingClientRect().right + 1"
        " ).map(t => t.textContent)"
    )
    assert outside == []
    assert browser.evaluate("document.querySelectorAll('.model text').length") > 0


def test_keys_open_a_rule(browser, pages):
    browser.open(pages["llama"])
    rule = "#rules .block details.rule"
    assert browser.evaluate(f"document.querySelector('{rule} > summary').checkVisibility()")
    browser.evaluate(f"document.querySelector('{rule} > summary').focus()")
    browser.press("Enter", 13)
    assert browser.evaluate(f"document.querySelector('{rule} .paths').checkVisibility()")


def test_hostile_names_are_displayed_as_text(browser, pages):
    browser.open(pages["difficult"])
    names = browser.evaluate("[...document.querySelectorAll('code')].map(e => e.textContent)")
    assert f"{SHOWN}.weight" in names
    assert browser.evaluate("document.querySelector('h1').textContent").startswith("</title><script>")


def test_click_on_a_dot_shows_its_plan(browser, pages):
    shown = "[...document.querySelectorAll('.plan')].filter(e => e.checkVisibility()).map(e => e.id)"
    browser.open(pages["search"])
    best = browser.evaluate("document.querySelector('.plan.best').id")
    assert browser.evaluate(shown) == [best]
    other = browser.evaluate(f"[...document.querySelectorAll('.plan')].map(e => e.id).find(id => id != '{best}')")
    x, y = browser.evaluate(
        f"(() => {{ const e = document.querySelector('a[href=\"#{other}\"] circle'); e.scrollIntoView({{block: 'center'}});"
        " const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()"
    )
    for kind in ("mousePressed", "mouseReleased"):
        browser.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    assert browser.evaluate(shown) == [other]
    browser.evaluate(f"document.querySelector('table a[href=\"#{best}\"]').focus()")
    browser.press("Enter", 13)
    assert browser.evaluate(shown) == [best]
    browser.send("Emulation.setEmulatedMedia", media="print")
    try:
        count = browser.evaluate("document.querySelectorAll('.plan').length")
        assert len(browser.evaluate(shown)) == count > 5
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("width", WIDTHS)
def test_dots_are_inside_the_picture(browser, pages, width):
    browser.open(pages["search"], width=width)
    outside = browser.evaluate("""(() => { const box = document.querySelector('.scatter').getBoundingClientRect();
      return [...document.querySelectorAll('.scatter circle, .scatter text')].map(e => [e.outerHTML, e.getBoundingClientRect()])
        .filter(([, r]) => r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1)
        .map(([html]) => html); })()""")
    assert outside == []


def test_page_works_with_scripts_off(browser, pages):
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(pages["difficult"])
        summary = browser.send(
            "DOM.querySelector",
            nodeId=browser.send("DOM.getDocument")["root"]["nodeId"],
            selector="#shards details > summary",
        )["nodeId"]
        browser.send("DOM.scrollIntoViewIfNeeded", nodeId=summary)
        box = browser.send("DOM.getBoxModel", nodeId=summary)["model"]["content"]
        for kind in ("mousePressed", "mouseReleased"):
            browser.send(
                "Input.dispatchMouseEvent",
                type=kind,
                x=box[0] + 20,
                y=(box[1] + box[5]) / 2,
                button="left",
                clickCount=1,
            )
        details = browser.send(
            "DOM.querySelector",
            nodeId=browser.send("DOM.getDocument")["root"]["nodeId"],
            selector="#shards details[open]",
        )["nodeId"]
        assert details != 0
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)


def test_print_expands_collapsed_sections(browser, pages):
    browser.open(pages["difficult"])
    browser.send("Emulation.setEmulatedMedia", media="print")
    try:
        grid = "document.querySelector('#shards details:not([open]) table.grid')"
        assert browser.evaluate(f"{grid}.getBoundingClientRect().height > 10 && {grid}.checkVisibility()")
        assert browser.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")


def test_elements_have_accessible_names(browser, pages):
    browser.open(pages["llama"])
    nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for node in nodes:
        if not node.get("ignored"):
            roles.setdefault(node.get("role", {}).get("value"), []).append(node.get("name", {}).get("value", ""))
    assert "LlamaForCausalLM" in roles["heading"] and all(roles["heading"])
    assert roles["image"] and all("the ideal is" in name or "forward" in name for name in roles["image"])
    assert all(roles["region"]) and roles["main"] is not None and roles["navigation"] == ["Sections"]
    assert browser.evaluate(
        "[...document.querySelectorAll('table')].every(t => t.caption && t.caption.textContent && t.querySelector('th[scope]'))"
    )
    assert browser.evaluate("document.documentElement.lang") == "en"


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["step", "steps"])
def test_pictures_of_a_step_are_drawn(browser, pages, name, width):
    """Lanes are as wide as the page allows, each has something in it, and two plans share their axis."""
    browser.open(pages[name], width=width)
    lanes = browser.evaluate("""[...document.querySelectorAll('#step .lanes svg.bar')].map(svg => {
      const inner = [...svg.querySelectorAll('rect, path')].map(e => e.getBoundingClientRect());
      const own = svg.getBoundingClientRect();
      return [own.width, own.height, Math.max(...inner.map(r => r.width)),
              inner.every(r => r.left >= own.left - 1 && r.right <= own.right + 1 && r.top >= own.top - 1
                               && r.bottom <= own.bottom + 1)];
    })""")
    assert len(lanes) >= (8 if name == "step" else 16)
    for own, height, widest, is_inside in lanes:
        assert own > 120 and height > 15 and widest > 0 and is_inside
    assert len({round(own) for own, _, _, _ in lanes}) == 1
    boxes = browser.evaluate(
        "[...document.querySelectorAll('#step .flow li')].filter(e => e.checkVisibility())"
        ".map(e => [e.scrollWidth - e.clientWidth, e.getBoundingClientRect().left])"
    )
    assert len(boxes) > 10 and all(over <= 20 and left >= 0 for over, left in boxes)


def test_ranks_have_readable_numbers(browser, pages):
    browser.open(pages["step"], width=360)
    texts = browser.evaluate("""[...document.querySelectorAll('#step .ranks g')].map(g => {
      const text = g.querySelector('text').getBoundingClientRect(), rect = g.querySelector('rect').getBoundingClientRect();
      return text.left >= rect.left && text.right <= rect.right && text.height >= 10;
    })""")
    assert len(texts) == 8 and all(texts)


def test_images_of_a_step_have_names(browser, pages):
    browser.open(pages["steps"])
    nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
    names = [
        node["name"]["value"]
        for node in nodes
        if not node.get("ignored") and node.get("role", {}).get("value") == "image"
    ]
    assert all(names) and sum("memory of rank 0 over the step" in name for name in names) == 2
