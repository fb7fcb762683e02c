"""The page in a headless browser: clicked, typed into, measured against the machine, and looked at by axe."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import fsmc
from fsmc.cli.machine import Source
from fsmc.cli.tokenizer import TextTokenizer
from fsmc.view.page import page

PATTERN = "(19|20)[0-9]{2}-(jan|feb|mar), é{1,3}[^x]?"
TREE = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "kids": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name", "kids"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def tokenizer(tokenizer_file) -> TextTokenizer:
    return TextTokenizer.read(str(tokenizer_file))


@pytest.fixture(scope="module")
def pages(tokenizer):
    compiler = fsmc.GrammarCompiler(tokenizer.vocabulary, cache_dir=None, whitespace="json")
    grammars = {"pattern": compiler.compile_regex(PATTERN), "tree": compiler.compile_json_schema(TREE)}
    made = {
        name: page(g.machine, title=g.source, kind=name, vocabulary=g.vocab, tokenizer_document=tokenizer.document)
        for name, g in grammars.items()
    }
    return grammars, made


def waits(shown, text: str) -> None:
    """Until the text field holds this: a jump types a character at a time."""
    from playwright.sync_api import expect

    expect(shown.locator("#text")).to_have_value(text)


def test_typing_walks(open_page, pages) -> None:
    shown = open_page(pages[1]["pattern"])
    shown.fill("#text", "2024-f")
    assert shown.inner_text("#forced") == "eb,␣é"
    assert shown.inner_text("#verdict") == "The text must go on."
    assert shown.locator("#canvas .now").count() == 1
    assert shown.locator("#canvas .line.trail").count() >= 3  # a chain, a single byte, another chain
    shown.fill("#text", "2024-x")
    assert "Byte 5 cannot be read: f j m may come" in shown.inner_text("#verdict")
    assert shown.inner_text("#read .bad") == "x"
    assert shown.is_disabled("#jump")
    shown.fill("#text", "2024-feb, éé")
    assert shown.inner_text("#verdict") == "The text may end here, or go on."
    shown.click("#back")
    assert shown.input_value("#text") == "2024-feb, é"
    shown.click("#clear")
    assert shown.input_value("#text") == ""


def test_forced_chains_are_one_thick_edge(open_page, pages) -> None:
    shown = open_page(pages[1]["pattern"])
    thick = shown.locator("#canvas .label .forced").all_text_contents()
    assert "feb" in thick
    assert any(text.endswith(",␣é") for text in thick)
    assert shown.locator("#canvas .line.thick").count() >= 3


def test_jumping_types_the_forced_text_and_shows_the_tokens(open_page, pages) -> None:
    shown = open_page(pages[1]["tree"])
    shown.click("#jump")
    waits(shown, '{"name": "')
    shown.wait_for_selector("#retokenized:not([hidden])")
    shown.fill("#text", '{"name": "Bo", "k')
    before = shown.evaluate("tokens.encode(walk.bytes)")
    shown.press("#text", "Control+Enter")
    waits(shown, '{"name": "Bo", "kids": [')
    shown.wait_for_selector("#retokenized:not([hidden])")
    after = shown.evaluate("tokens.encode(walk.bytes)")
    kept = next(i for i in range(len(after)) if i == len(before) or before[i] != after[i])
    assert shown.inner_text("#kept").startswith(f"{kept} of {len(before)} tokens kept")
    assert shown.locator("#after .token.new").count() == len(after) - kept


def test_boxes_open_and_close_by_mouse_and_keyboard(open_page, pages) -> None:
    shown = open_page(pages[1]["tree"])
    assert shown.locator("#canvas .box").count() == 1
    shown.locator("#canvas .box").click()
    assert shown.locator("#canvas .box.open").count() == 1
    inner = shown.locator("#canvas .box:not(.open)")
    assert {"string", "array"} <= {
        label.split(",")[0] for label in (b.get_attribute("aria-label") for b in inner.all())
    }
    array = shown.locator("#canvas .box[aria-label^='array']")
    array.focus()
    shown.keyboard.press("Enter")
    assert shown.locator("#canvas .box[aria-label^='object']").count() == 3  # the recursion: first and later items
    shown.keyboard.press("Enter")  # the focus stays on the box
    assert shown.locator("#canvas .box[aria-label^='object']").count() == 1


PLACE = """() => { // where the walk is: how many places are marked, dots, states and edges on the way, and whether the place is in sight
  const now = [...document.querySelectorAll("#canvas .now")], dots = [...document.querySelectorAll("#canvas .dot")];
  const canvas = document.querySelector("#canvas").getBoundingClientRect(), at = (dots[0] || now[0]).getBoundingClientRect();
  const inSight = at.right > canvas.left && at.left < canvas.right && at.bottom > canvas.top && at.top < canvas.bottom;
  const exact = now[0] && !now[0].classList.contains("box");
  return [now.length, exact, dots.length === (now[0].matches(".line") ? 1 : 0), inSight];
}"""


@pytest.mark.parametrize("kind", ["words", "phrases", "enum"])
def test_every_place_of_a_walk_is_drawn(open_page, tokenizer, kind) -> None:
    """Also inside of forced chains that are far from the start of a large machine, when a text is put in at once and as it grows."""
    rng = random.Random(5)
    word = lambda n: "".join(rng.choice("abcdefghijklmnop") for _ in range(n))  # noqa: E731
    compiler = fsmc.GrammarCompiler(tokenizer.vocabulary, cache_dir=None, whitespace="json")
    if kind == "words":
        texts = sorted({word(rng.randint(4, 9)) for _ in range(700)})
    else:
        texts = sorted({" ".join(word(rng.randint(3, 7)) for _ in range(5)) for _ in range(60)})
    if kind == "enum":
        schema = {
            "type": "object",
            "properties": {"is": {"enum": texts}},
            "required": ["is"],
            "additionalProperties": False,
        }
        machine = compiler.compile_json_schema(schema).machine
        texts = [f'{{"is": "{text}"}}' for text in texts]
    else:
        machine = compiler.compile_choice(texts).machine
    shown = open_page(page(machine, title=kind))
    for text in rng.sample(texts, 4):
        for n in [*range(1, len(text) + 1), *rng.sample(range(1, len(text)), 3)]:
            shown.fill("#text", text[:n])
            assert shown.evaluate(PLACE) == [1, True, True, True], text[:n]


def test_a_part_is_drawn_by_itself(open_page, pages) -> None:
    shown = open_page(pages[1]["tree"])
    foreign = "[...graph.drawn.values()].filter(n => n.kind === 'state' && !n.parent && machine.component[n.state] !== graph.root.component).length"
    for text in ("", '{"name": "Bo", "ki'):
        shown.fill("#text", text)
        shown.evaluate("document.querySelector('#summary').open = true")
        for button in shown.locator("#parts button").all():
            button.click()
            assert shown.evaluate(foreign) == 0, button.inner_text()


@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 800}, {"width": 390, "height": 800}])
def test_a_state_opens_until_all_its_ways_are_drawn(open_page, tokenizer, viewport) -> None:
    rng = random.Random(3)
    words = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(8)) for _ in range(900)]
    compiler = fsmc.GrammarCompiler(tokenizer.vocabulary, cache_dir=None)
    shown = open_page(page(compiler.compile_choice(words).machine, title="words", kind="choice"), viewport=viewport)
    counts = []
    while (start := shown.locator("#canvas .state.start[role=button]")).count():
        counts.append(int(start.locator(".hidden").text_content()))
        assert counts == sorted(set(counts), reverse=True)
        start.focus()
        shown.keyboard.press("Enter")
    assert counts == [12]  # 26 letters, 14 of them at first
    other = shown.locator("#canvas .state[role=button]").first
    number = other.locator(".number").text_content()
    before = int(other.locator(".hidden").text_content())
    other.dispatch_event("click")
    now = [
        state for state in shown.locator("#canvas .state").all() if state.locator(".number").text_content() == number
    ]
    assert now[0].locator(".hidden").count() == 0 or int(now[0].locator(".hidden").text_content()) == before - 14


def test_what_has_the_focus_is_in_sight(open_page, pages) -> None:
    shown = open_page(pages[1]["tree"])
    shown.locator("#canvas .box").click()
    canvas = shown.locator("#canvas")
    canvas.focus()
    canvas_box = canvas.bounding_box()
    for _ in range(shown.locator("#canvas [tabindex='0']").count()):
        for _ in range(8):
            shown.keyboard.press("+")
        shown.keyboard.press("Tab")
        assert shown.evaluate("document.activeElement.closest('#canvas') !== null")
        at = shown.evaluate(
            "(() => { const b = document.activeElement.getBoundingClientRect(); return [b.x, b.y, b.right, b.bottom]; })()"
        )
        wide, tall = at[2] - at[0] > canvas_box["width"], at[3] - at[1] > canvas_box["height"]
        assert wide or canvas_box["x"] - 1 <= at[0] <= at[2] <= canvas_box["x"] + canvas_box["width"] + 1
        assert tall or canvas_box["y"] - 1 <= at[1] <= at[3] <= canvas_box["y"] + canvas_box["height"] + 1


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_lies_on_the_drawing(open_page, pages, width) -> None:
    shown = open_page(pages[1]["tree"], viewport={"width": width, "height": 800})
    canvas = shown.locator("#canvas").bounding_box()
    for other in (".strip", ".tools", ".legend"):
        box = shown.locator(other).bounding_box()
        assert box["y"] + box["height"] <= canvas["y"] or canvas["y"] + canvas["height"] <= box["y"]


def test_the_walk_opens_the_boxes_it_is_in(open_page, pages) -> None:
    shown = open_page(pages[1]["tree"])
    shown.fill("#text", '{"name": "", "kids": [{"name": "a')
    assert shown.inner_text("#open") == "4"
    assert shown.locator("#canvas .box.open").count() == 3  # inside of the outermost object, which is named
    around = shown.inner_text("#around")
    assert around == "drawn is the inside of: the whole text › object: name, kids"
    assert shown.locator("#canvas .now").count() == 1
    shown.fill("#text", '{"name": "", "kids": []}')
    assert shown.locator("#canvas .box.open").count() == 0
    assert shown.is_hidden("#around")
    assert shown.inner_text("#verdict") == "The text is complete."


def test_what_is_deep_costs_no_more(open_page, pages) -> None:
    """Letter by letter: as many elements at any depth, a layout for each form that is seen, and no step walked twice."""
    shown = open_page(pages[1]["tree"])
    level = '{"name": "a", "kids": ['
    counts = shown.evaluate(
        "text => { let steps = 0; const step = machine.step.bind(machine), found = [], start = $('text');"
        "machine.walk = (walk => (...given) => { machine.step = (...at) => { steps++; return step(...at); };"
        "  const path = walk(...given); machine.step = step; return path; })(machine.walk.bind(machine));"
        "for (let n = 1; n <= text.length; n++) { start.value = text.slice(0, n); steps = 0; update();"
        "  found.push([drawing.layouts.size, drawing.elements.size, steps, document.querySelectorAll('.now').length]); }"
        "return found; }",
        level * 60,
    )
    layouts, elements, steps, now = np.array(counts).T
    assert elements.max() == elements[: 4 * len(level)].max()
    assert layouts[-1] == layouts[6 * len(level)]
    assert steps.max() == 1
    assert set(now) == {1}
    assert shown.inner_text("#open") == "120"
    assert "… 112 more … › object: name, kids › array" in shown.inner_text("#around")
    shown.click("#back")
    assert shown.inner_text("#open") == "119"


AWAY = """() => {
  const samples = new Map(), close = (path, c) => Math.min(...path.map(p => Math.hypot(p.x - c.x, p.y - c.y)));
  for (const [key, line] of drawing.elements) if (line.tagName === "path")
    samples.set(key, [...Array(Math.ceil(line.getTotalLength())).keys()].map(i => line.getPointAtLength(i)));
  return [...drawing.labels].map(([edge, text]) => {
    const box = text.getBBox(), center = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    const others = [...samples.keys()].filter(key => key !== edge).map(key => close(samples.get(key), center));
    const outside = (p, low, size) => Math.max(low - p, p - low - size, 0);
    const gap = Math.min(...samples.get(edge).map(p => Math.hypot(outside(p.x, box.x, box.width), outside(p.y, box.y, box.height))));
    return [text.textContent, close(samples.get(edge), center), Math.min(...others, 1e9), gap, box.x, box.y, box.width, box.height];
  });
}"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["pattern", "dates", "fan", "mail"])
def test_a_label_is_on_its_own_edge(open_page, pages, name, width) -> None:
    """Nearer to it than to any other, and on no other label."""
    from fsmc.compiler.schema.recipe import SchemaRecipe
    from fsmc.compiler.schema.text_options import TextOptions

    dates = {"type": "object", "properties": {"born": {"type": "string", "format": "date"}}, "required": ["born"]}
    patterns = {"fan": r"\w{0,65}", "mail": r"[a-z0-9._]+@[a-z0-9]+(\.[a-z]{2,4})+"}
    if name == "pattern":
        html = pages[1][name]
    elif name == "dates":
        html = page(SchemaRecipe(dates, TextOptions(whitespace="json")).build().handed_over(), title=name)
    else:
        html = page(Source(patterns[name], "python", 0).machine(), title=name)
    shown = open_page(html, viewport={"width": width, "height": 800})
    if name == "dates":
        shown.fill("#text", '{"born": "2024-0')
    labels = shown.evaluate(AWAY)
    assert len(labels) > 7
    for text, own, other, gap, *_ in labels:
        assert own < other, text
        assert gap < 6, text
    boxes = np.array([box for _, _, _, _, *box in labels])
    low, high = boxes[:, :2], boxes[:, :2] + boxes[:, 2:]
    shared = np.minimum(high[:, None], high[None]) - np.maximum(low[:, None], low[None])
    on_each_other = (shared > 3).all(axis=2) & ~np.eye(len(boxes), dtype=bool)
    assert not on_each_other.any(), [labels[i][0] for i in np.flatnonzero(on_each_other.any(axis=1))]


COVERED = """() => {
  const boxes = [...drawing.labels.values()].map(text => [text.textContent, text.getBBox()]);
  const names = [...document.querySelectorAll("#canvas .name")].map(text => [text.textContent, text.getBBox()]);
  const whole = { x: 0, y: 0, width: drawing.size.width, height: drawing.size.height };
  const parts = [whole, ...[...document.querySelectorAll("#canvas .box.open rect")].map(rect => rect.getBBox())];
  const within = (a, b) => a.x >= b.x && a.y >= b.y && a.x + a.width <= b.x + b.width && a.y + a.height <= b.y + b.height;
  const meet = (a, b) => Math.min(a.x + a.width, b.x + b.width) > Math.max(a.x, b.x) + 1 && Math.min(a.y + a.height, b.y + b.height) > Math.max(a.y, b.y) + 1;
  const lines = [...drawing.elements].filter(([, line]) => line.tagName === "path")
    .map(([edge, line]) => [edge, [...Array(Math.ceil(line.getTotalLength())).keys()].map(i => line.getPointAtLength(i))]);
  const inside = (p, b) => p.x > b.x + 1 && p.x < b.x + b.width - 1 && p.y > b.y + 2 && p.y < b.y + b.height - 2;
  const found = [];
  boxes.forEach(([label, box], i) => {
    for (const [other, at] of [...boxes.slice(i + 1), ...names]) if (meet(box, at)) found.push([label, "covers", other]);
    for (const part of parts) if (meet(box, part) && !within(box, part)) found.push([label, "sticks out"]);
  });
  for (const [loop, text] of drawing.labels) if (loop.from === loop.to)
    for (const [edge, points] of lines) if (edge !== loop && points.some(point => inside(point, text.getBBox()))) found.push([text.textContent, "is crossed by", edge.label]);
  return [found, [...drawing.labels.keys()].filter(edge => edge.from === edge.to).length];
}"""
KIDS = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "number"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name", "age", "kids"],
}  # fmt: skip


BORN: dict = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "born": {"type": "integer"},
        "kids": {"type": "array", "items": {"$ref": "#"}},
    },
    "required": ["name", "born", "kids"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(
    ("source", "opened"),
    [
        ("[^x]*x[^y]*y", []),
        ('"[^"]*": "[^"]*"', []),
        ("([^xyz]*x)*[^y]*y[^z]*(z|q[^q]*q)", []),
        (KIDS, ["object", "string"]),
        (KIDS, ["object", "number"]),
        (KIDS, ["object", "string", "number"]),
        (BORN, ["object", "number", "string"]),
        ('root ::= sum\nsum ::= sum "+" text | text\ntext ::= [0-9]+ | "(" sum ")"', ["text, 1"]),
    ],
)
def test_loops_have_room(open_page, tokenizer, source, opened, width) -> None:
    """Their labels lie on no other label and no name, on no other edge, and inside of what they belong to."""
    compiler = fsmc.GrammarCompiler(tokenizer.vocabulary, cache_dir=None, whitespace="json")
    if isinstance(source, dict):
        grammar = compiler.compile_json_schema(source)
    else:
        grammar = (compiler.compile_grammar if "::=" in source else compiler.compile_regex)(source)
    shown = open_page(page(grammar.machine, title="loops"), viewport={"width": width, "height": 800})
    for name in opened:
        shown.locator(f"#canvas .box:not(.open)[aria-label^='{name}']").first.focus()
        shown.keyboard.press("Enter")
    found, n_loops = shown.evaluate(COVERED)
    assert n_loops
    assert not found


CROSSED = """() => {
  const parent = id => graph.drawn.get(id).parent;
  const holds = (box, id) => { for (let at = id; at; at = parent(at)) if (at === box) return true; return false; };
  const rects = [...graph.drawn.values()].filter(node => node.kind === "box")
    .map(node => [node, drawing.elements.get(node.id).querySelector("rect").getBBox()]);
  const found = [];
  for (const [edge, line] of drawing.elements) {
    if (line.tagName !== "path") continue;
    const points = [...Array(Math.ceil(line.getTotalLength())).keys()].map(i => line.getPointAtLength(i));
    for (const [box, r] of rects) {
      if (holds(box.id, edge.from) || holds(box.id, edge.to)) continue;
      const meets = p => p.x > r.x + 1 && p.x < r.x + r.width - 1 && p.y > r.y + 1 && p.y < r.y + r.height - 1;
      if (points.some(meets)) found.push([edge.from, edge.to, box.label]);
    }
  }
  return found;
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_no_edge_crosses_a_box_that_it_is_no_part_of(open_page, width) -> None:
    """Where many are open, in each other and beside each other; and those that lead back go round their own box."""
    from fsmc.compiler.schema.recipe import SchemaRecipe
    from fsmc.compiler.schema.text_options import TextOptions

    def definition(i: int) -> dict:
        inner = {"next": {"$ref": f"#/$defs/{(i + 1) % 6}"}, "all": {"items": {"$ref": f"#/$defs/{(i + 2) % 6}"}}}
        inner["all"]["type"] = "array"
        names = {f"name{i}": {"type": "string"}, **inner}
        return {"type": "object", "properties": names, "required": [f"name{i}"], "additionalProperties": False}

    schema = {"$ref": "#/$defs/0", "$defs": {str(i): definition(i) for i in range(6)}}
    machine = SchemaRecipe(schema, TextOptions(whitespace="json")).build().handed_over()
    shown = open_page(page(machine, title="boxes"), viewport={"width": width, "height": 800})
    for which in (0, 0, -1, 0, -1, 2, 1, 0, -1, 3, 0, -1):
        shown.evaluate(
            """n => { const boxes = [...graph.drawn.values()].filter(node => node.kind === "box" && !node.open); open(boxes.at(n)); }""",
            which,
        )
        assert shown.evaluate(CROSSED) == []
    assert shown.locator("#canvas .box.open").count() == 12
    largest = shown.evaluate("Math.max(...[...drawing.layouts.values()].map(layout => layout.places.length))")
    assert (
        largest < shown.evaluate("graph.drawn.size") / 4
    )  # each box is laid out by itself: opening one costs no more where many are open
    back = """() => [...drawing.elements].filter(([edge, line]) => line.classList.contains("dotted"))
      .filter(([edge, line]) => { const n = line.getTotalLength(), [a, b] = [0, n].map(at => line.getPointAtLength(at));
        return drawing.wide ? b.x < a.x - 40 : b.y < a.y - 40; }).length"""
    assert shown.evaluate(back) > 0


def test_on_a_phone_nothing_covers_the_start(open_page, pages) -> None:
    shown = open_page(pages[1]["pattern"], viewport={"width": 390, "height": 800})
    start = shown.locator("#canvas .start").bounding_box()
    for button in shown.locator(".tools button").all():
        box = button.bounding_box()
        apart = box["x"] + box["width"] <= start["x"] or start["x"] + start["width"] <= box["x"]
        assert apart or box["y"] + box["height"] <= start["y"] or start["y"] + start["height"] <= box["y"]


def test_the_drawing_moves_and_scales_with_keys(open_page, pages) -> None:
    shown = open_page(pages[1]["pattern"])
    shown.focus("#canvas")
    boxes = [shown.get_attribute("#canvas", "viewBox")]
    for key in ("ArrowRight", "ArrowDown", "+", "-", "0"):
        shown.keyboard.press(key)
        boxes.append(shown.get_attribute("#canvas", "viewBox"))
    assert len(set(boxes[:4])) == 4
    shown.mouse.move(400, 400)
    shown.mouse.wheel(0, 300)
    assert shown.get_attribute("#canvas", "viewBox") != boxes[-1]


def test_masks_are_those_of_the_matcher(open_page, pages) -> None:
    """At random places of both machines, every token."""
    rng = random.Random(3)
    for name, grammar in pages[0].items():
        shown = open_page(pages[1][name])
        matcher, row = fsmc.GrammarMatcher(grammar), fsmc.allocate_token_bitmask(1, grammar.vocab.size)
        text = b""
        for _ in range(60):
            matcher.fill_next_token_bitmask(row)
            allowed = np.flatnonzero(np.unpackbits(row[0].view(np.uint8), bitorder="little")).tolist()
            texts = [i for i in allowed if i not in grammar.vocab.eos_token_ids]
            ids = shown.evaluate(
                "bytes => { const path = machine.walk(Uint8Array.from(bytes)); const at = path[path.length - 1];"
                "return [path.length - 1, tokens.mask(machine, at).map(i => tokens.ids[i]), machine.mayEnd(at)]; }",
                list(text),
            )
            assert ids[0] == len(text)
            assert sorted(ids[1]) == texts
            assert ids[2] == matcher.is_completed()
            if not texts:
                break
            chosen = rng.choice(texts)
            assert matcher.accept_token(chosen)
            text += grammar.vocab.token(chosen)


COLOURS = {"enum": ["red", "green", "blue", 7, 70]}
UNEQUAL = {
    "items of a few": {"type": "array", "items": COLOURS, "uniqueItems": True, "minItems": 1},
    "numbers": {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 30}, "uniqueItems": True},
    "strings": {"type": "array", "items": {"type": "string", "maxLength": 1}, "uniqueItems": True, "maxItems": 4},
    "in each other": {"items": {"items": {"type": "integer"}, "type": "array", "uniqueItems": True}, "type": "array", "uniqueItems": True},
    "keys": {"type": "object", "minProperties": 2, "propertyNames": {"pattern": "^[xyz]?$"}, "additionalProperties": {"enum": [1, 2]}},
}  # fmt: skip


@pytest.mark.parametrize("name", UNEQUAL)
def test_what_must_differ_is_followed(open_page, tokenizer, name) -> None:
    """Along random texts: the bytes that may come are those of the matcher, and so is what the text can be."""
    compiler = fsmc.GrammarCompiler(tokenizer.vocabulary, cache_dir=None, whitespace="json")
    grammar = compiler.compile_json_schema(UNEQUAL[name])
    shown = open_page(page(grammar.machine, title=name))
    rng, twins = random.Random(name), 0
    for _ in range(4):
        matcher, text, before = fsmc.GrammarMatcher(grammar), b"", {}
        while len(text) < 60:
            allowed = [byte for byte in range(256) if matcher.fork().accept_bytes(bytes([byte]))]
            here = shown.evaluate(
                "bytes => { const path = machine.walk(Uint8Array.from(bytes)), at = path[path.length - 1];"
                "return [path.length - 1, machine.allowedBytes(at), machine.mayEnd(at),"
                "[...Array(256).keys()].filter(byte => machine.isTwin(at, byte)).length]; }",
                list(text),
            )
            assert here[:3] == [len(text), allowed, matcher.is_completed()], text
            twins += here[3]
            if not allowed:
                break
            likely = [byte for byte in allowed if byte in before.get(text[-1:], b"")] + [*b',"0', *allowed]
            byte = rng.choice([byte for byte in likely if byte in allowed])
            before[text[-1:]] = before.get(text[-1:], b"") + bytes([byte])
            assert matcher.accept_bytes(bytes([byte]))
            text += bytes([byte])
    assert twins, "no text came to a place where something would come twice"


def test_what_comes_twice_is_said(open_page, tokenizer) -> None:
    compiler = fsmc.GrammarCompiler(tokenizer.vocabulary, cache_dir=None, whitespace="json")
    numbers = {"type": "array", "items": {"type": ["number", "object"]}, "uniqueItems": True}
    shown = open_page(page(compiler.compile_json_schema(numbers).machine, title="numbers"))
    for text in ("[1, 1.0", "[0, 0.0", "[120, 1200, 120", '[{"a": 1, "b": 2}, {"b": 2.0, "a": 1'):
        shown.fill("#text", text)
        assert shown.inner_text("#verdict") == "The text must go on."
        shown.fill("#text", text + ("}" if "{" in text else "]"))
        assert shown.inner_text("#verdict").endswith("this could only be an item or a key that is there already.")
    shown.fill("#text", "[1, 1.01, 10, -1]")
    assert shown.inner_text("#verdict") == "The text is complete."
    assert shown.is_hidden("#unsure")
    twins = {"type": "array", "items": {"enum": [1, 2, 3]}, "anyOf": [{"uniqueItems": True}, {"maxItems": 2}]}
    shown = open_page(page(compiler.compile_json_schema(twins).machine, title="twins"))
    shown.fill("#text", "[1, 2")
    assert shown.is_visible("#unsure")
    shown.fill("#text", "[1, 2, 3]")
    assert shown.inner_text("#verdict") == "The text is complete."


def test_text_is_cut_as_the_tokenizer_cuts_it(open_page, pages, tokenizer) -> None:
    shown = open_page(pages[1]["pattern"])
    rng = random.Random(5)
    mixed = ["".join(rng.choices("aeyos20 é", k=rng.randrange(40))) for _ in range(200)]
    for text in ("2024-yes", "no 2020 yes", "yéyes  2021", "", "it's 20", "yes" * 15_000, *mixed):
        assert shown.evaluate("text => tokens.encode(encoder.encode(text))", text) == tokenizer.encode(text.encode())


def test_allowed_tokens_are_searched_and_clicked(open_page, pages) -> None:
    shown = open_page(pages[1]["pattern"])
    shown.wait_for_selector("#mask button")
    assert shown.inner_text("#count") == f"4 of {pages[0]['pattern'].vocab.size}"  # 1, 2, 20, 202
    shown.fill("#search", "202")
    assert shown.locator("#mask button").count() == 1
    shown.locator("#mask button").click()
    assert shown.input_value("#text") == "202"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tree", '{"name": "a'),
        ("two arrays", '{"tags": ["red", "r'),
        ("pattern", "2024-x"),
        ("20,000 states", "é_0"),
        ("deep", '{"name": "a", "kids": [' * 5),
        ("after a jump", '{"name": "Bo", "k'),
        ("long names", '{"a_name_that_is_much_longer_than_what_a_box_can_show": {"'),
    ],
)
def test_light_dark_and_phone(open_page, pages, tokenizer, axe, name, text) -> None:
    """axe finds nothing wrong, whatever the colours and the width."""
    arrays = {"tags": UNEQUAL["items of a few"], "ids": UNEQUAL["numbers"]}
    if name == "20,000 states":
        large = Source(r"\w{0,65}", "python", 0).compile(tokenizer.vocabulary, cache=False)
        assert large.machine.n_states > 20_000
        html = page(large.machine, title=name, vocabulary=tokenizer.vocabulary)
    elif name == "long names":
        members = {f"a_name_that_is_much_longer_than_what_a_box_can_show{i}": {} for i in ("", 2)}
        inside = {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}
        outside = {**inside, "properties": dict.fromkeys(members, inside)}
        compiler = fsmc.GrammarCompiler(tokenizer.vocabulary, cache_dir=None, whitespace="json")
        html = page(compiler.compile_json_schema(outside).machine, title=name, vocabulary=tokenizer.vocabulary)
    elif name in ("deep", "after a jump"):
        html = pages[1]["tree"]
    elif name not in pages[1]:
        compiler = fsmc.GrammarCompiler(tokenizer.vocabulary, cache_dir=None, whitespace="json")
        both = compiler.compile_json_schema({"properties": arrays, "type": "object", "required": ["tags", "ids"]})
        html = page(both.machine, title=name, vocabulary=both.vocab)
    else:
        html = pages[1][name]
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390)):
        shown = open_page(html, color_scheme=scheme, viewport={"width": width, "height": 800})
        shown.fill("#text", text)
        if name == "after a jump":
            shown.click("#jump")
            shown.wait_for_selector("#after .token.new")
        shown.click("#summary summary")
        shown.wait_for_selector("#mask button")
        shown.evaluate(axe + "; 0")
        found = shown.evaluate("axe.run()")["violations"]
        assert not found, json.dumps([(v["id"], [n["html"][:200] for n in v["nodes"]]) for v in found], indent=1)
        assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    was = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    shown.click("#theme")
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") != was


@pytest.fixture(scope="module")
def pictures(pages, tokenizer) -> dict[str, tuple[str, str]]:
    """Page and text: a pattern, a schema that calls itself, a machine of 20,000 states."""
    large = fsmc.GrammarCompiler(tokenizer.vocabulary, cache_dir=None).compile_regex(r"[ab]*a[ab]{13}c[0-9]{0,4000}")
    assert large.machine.n_states > 20_000
    return {
        "pattern": (pages[1]["pattern"], "2024-f"),
        "tree": (pages[1]["tree"], '{"name": "", "kids": [{"name": "a", "k'),
        "large": (page(large.machine, title="large", vocabulary=large.vocab), "abab"),
    }


@pytest.mark.parametrize("name", ["pattern", "tree", "large"])
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_the_picture_shows_where_the_walk_is(open_page, pictures, tmp_path, name, scheme, width) -> None:
    """In the screenshot: the colour of the place itself, that of the way there, and letters large enough to be read."""
    image = pytest.importorskip("PIL.Image", reason="no pillow: pip install pillow")
    html, text = pictures[name]
    shown = open_page(html, color_scheme=scheme, viewport={"width": width, "height": 800})
    shown.fill("#text", text)
    where = tmp_path / f"{name}-{scheme}-{width}.png"
    shown.locator("#canvas").screenshot(path=where)
    pixels = np.asarray(image.open(where).convert("RGB")).astype(int)

    def count(variable: str) -> int:
        colour = shown.evaluate("name => getComputedStyle(document.documentElement).getPropertyValue(name)", variable)
        wanted = [int(colour.strip()[i : i + 2], 16) for i in (1, 3, 5)]
        return int((abs(pixels - wanted).max(axis=2) < 12).sum())

    assert pixels.mean() > 180 if scheme == "light" else pixels.mean() < 60
    here = shown.locator("#canvas .now, #canvas .dot").last.bounding_box()
    canvas = shown.locator("#canvas").bounding_box()
    assert canvas["x"] <= here["x"] and here["x"] + here["width"] <= canvas["x"] + canvas["width"]
    assert canvas["y"] <= here["y"] and here["y"] + here["height"] <= canvas["y"] + canvas["height"]
    assert count("--now") > 150
    letters = shown.evaluate("drawing.canvas.clientWidth / drawing.view.width * 12")
    assert letters >= 11, "labels of less than eleven pixels"


def test_fifty_thousand_states(open_page) -> None:
    """The nearest states are drawn, others on demand; nothing waits for the whole."""
    machine = Source(r"[ab]*a[ab]{14}c[0-9]{0,18000}", "python", 0).machine()
    assert machine.n_states > 50_000
    shown = open_page(page(machine, title="large"))
    assert 5 < shown.locator("#canvas .state").count() < 60
    assert shown.is_visible("#depths svg")
    count = shown.locator("#canvas .state").count()
    shown.locator("#canvas .state[role=button]").first.click()
    assert shown.locator("#canvas .state").count() > count
    shown.fill("#text", "b" + "a" * 16 + "c" + "1" * 300)
    assert "may end" in shown.inner_text("#verdict")
    assert shown.locator("#canvas .now").count() == 1
    assert shown.locator("#canvas .state.trail").count() > 5
    assert shown.locator("#canvas .state").count() < 80
    shown.evaluate("update()")
