"use strict";
// The page: the text field is the state of everything; what it says is walked, drawn and listed.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const machine = new Machine(data.machine);
const tokens = data.tokens ? new Tokens(data.tokens, data.merges) : null;
const graph = new Graph(machine);
const drawing = new Drawing($("canvas"), open);
const encoder = new TextEncoder();
const large = machine.components.some(component => component.states > ALL_AT_ONCE);
const MAX_LISTED = 240;
let walk = { bytes: new Uint8Array(0), path: [machine.start], forced: new Uint8Array(0) };
let listed = { places: [], at: null };
let drawnFor = "", jumping = null, maskTimer = null;

function redraw(fit) {
  drawing.draw(graph.build());
  if (fit) drawing.fit();
  else drawing.rescale();
}

function open(node) {
  if (node.kind === "box") {
    if (graph.isOpen(node.id)) { graph.opened.delete(node.id); graph.followed.delete(node.id); }
    else graph.opened.add(node.id);
  } else if (node.hidden) graph.showMore(node.instance, node.state);
  redraw(false);
  mark();
  const element = drawing.elements.get(node.id);
  if (element && element.hasAttribute("tabindex")) element.focus({ preventScroll: true });
}

// ── the walk ───────────────────────────────────────────────────────────────────────────────────────────────────────────

function update() {
  const bytes = encoder.encode($("text").value), path = machine.walk(bytes, walk);
  const here = path[path.length - 1], read = path.length - 1;
  walk = { bytes, path, here, read, forced: machine.forced(here) };
  graph.followTo(path);
  const keys = shown => [...shown].map(([instance, states]) => instance + ":" + [...states].join()).join("|");
  const key = [...graph.around.slice(0, 1).map(part => part.path), ...graph.followed].join() + "|" + keys(graph.more) + (large ? keys(graph.trail) : "");
  if (key !== drawnFor) { const first = drawnFor === ""; drawnFor = key; redraw(first); }
  mark();
  around();
  facts();
  if (tokens) { cut(); clearTimeout(maskTimer); maskTimer = setTimeout(fillMask, 40); }
}

function mark() {
  drawing.mark(walk.path.slice(-40).map(at => graph.find(at)), graph.find(walk.here));
}

// The parts that the drawn one is in, by name.
function around() {
  const label = c => machine.components[c].label, parts = graph.root.isWhole ? graph.around : [];
  const names = parts.map(part => label(part.call.component)).slice(1).reverse();
  const shown = names.length > 6 ? [...names.slice(0, 2), `… ${names.length - 4} more …`, ...names.slice(-2)] : names;
  $("around").hidden = !parts.length;
  $("around").textContent = parts.length ? `drawn is the inside of: ${[label(machine.component[0]), ...shown].join(" › ")} › ${label(parts[0].call.component)}` : "";
}

function facts() {
  const { bytes, here, read, forced } = walk;
  const ok = read === bytes.length, end = machine.mayEnd(here), explored = machine.isExplored(here);
  const readPart = document.createElement("span"), rest = document.createElement("span");
  let cutAt = read;
  while (cutAt > 0 && decode(bytes.subarray(0, cutAt)) === null) cutAt--;
  readPart.className = "ok"; rest.className = "bad";
  readPart.textContent = ok ? "" : visible(bytes.subarray(0, cutAt));
  rest.textContent = ok ? "" : visible(bytes.subarray(cutAt));
  $("read").replaceChildren(readPart, rest);
  const live = explored ? machine.allowedBytes(here) : [];
  const says = rangesText(toRanges(live)) || "nothing", twin = !ok && machine.isTwin(here, bytes[read]);
  $("verdict").className = "verdict " + (!ok ? "bad" : end ? "good" : "");
  $("verdict").textContent = !explored ? "The page does not hold what follows here (fsmc view --max-states)."
    : !ok ? `Byte ${read} cannot be read: ${end ? "only the end or " : ""}${says} may come.`
      + (twin ? " With it, this could only be an item or a key that is there already." : "")
    : end ? (live.length ? "The text may end here, or go on." : "The text is complete.") : "The text must go on.";
  $("unsure").hidden = !machine.comparesOtherwise(here);
  $("state").textContent = machine.states[here.state] + (machine.components.length > 1 ? ` in “${machine.components[machine.component[here.state]].label}”` : "");
  let depth = 0;
  for (let frame = here.stack; frame; frame = frame.up) depth++;
  $("open").textContent = depth;
  $("bytes").textContent = says;
  $("jump").disabled = !ok || !forced.length;
  $("forced").textContent = ok && forced.length ? visible(forced.subarray(0, 200)) : "";
  $("back").disabled = !bytes.length;
  $("clear").disabled = !bytes.length;
}

function setText(text) { $("text").value = text; update(); }

function edited() { stopJump(); $("retokenized").hidden = true; update(); }

// ── jump-forward ───────────────────────────────────────────────────────────────────────────────────────────────────────

function jump() {
  if ($("jump").disabled || jumping) return;
  const before = $("text").value, forced = [...decode(walk.forced)];
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const step = still ? forced.length : Math.max(1, Math.ceil(forced.length / 40));
  jumping = { before, forced, done: 0 };
  const next = () => {
    jumping.done = Math.min(forced.length, jumping.done + step);
    setText(before + forced.slice(0, jumping.done).join(""));
    if (jumping.done < forced.length) { jumping.timer = setTimeout(next, 55); return; }
    jumping = null;
    if (tokens) retokenized(before);
  };
  next();
}

function stopJump() { if (jumping) { clearTimeout(jumping.timer); jumping = null; } }

function retokenized(before) {
  const old = tokens.encode(encoder.encode(before)), now = tokens.encode(encoder.encode($("text").value));
  if (!old || !now) return;
  let kept = 0;
  while (kept < old.length && old[kept] === now[kept]) kept++;
  $("retokenized").hidden = false;
  const from = Math.max(0, kept - 12);
  $("before").replaceChildren(...chips(old.slice(from), (_, i) => (i + from < kept ? "" : "dropped")));
  $("after").replaceChildren(...chips(now.slice(from), (_, i) => (i + from < kept ? "" : "new")));
  $("kept").textContent = `${kept} of ${old.length} tokens kept, ${old.length - kept} cut anew, ${now.length - kept} new.`;
}

// ── tokens ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

function chips(ids, classOf) {
  return ids.map((id, i) => {
    const chip = document.createElement("span");
    chip.className = "token " + classOf(id, i);
    chip.textContent = visible(tokens.bytesOf(id));
    chip.title = "id " + id;
    return chip;
  });
}

function cut() {
  const ids = tokens.encode(walk.bytes);
  if (!ids) { $("cut").textContent = "no tokens spell this text"; return; }
  let at = 0;
  const ends = ids.map(id => (at += tokens.bytesOf(id).length));
  $("cut").replaceChildren(...chips(ids.slice(-300), (_, i) => (ends[i + Math.max(0, ids.length - 300)] > walk.read ? "refused" : "")));
  if (!ids.length) $("cut").textContent = "none yet";
}

function fillMask() {
  if (listed.at !== walk.here) listed = { at: walk.here, places: machine.isExplored(walk.here) ? tokens.mask(machine, walk.here) : [] };
  const end = machine.mayEnd(walk.here);
  const wanted = $("search").value;
  const needle = wanted ? encoder.encode(wanted) : null;
  const number = /^\d+$/.test(wanted) ? Number(wanted) : -1;
  const found = needle ? listed.places.filter(i => tokens.ids[i] === number || holds(tokens.tokens[i], needle)) : listed.places;
  found.sort((a, b) => tokens.ids[a] - tokens.ids[b]);
  const all = listed.places.length + (end ? tokens.eos.length : 0);
  $("count").textContent = `${all.toLocaleString("en")} of ${tokens.size.toLocaleString("en")}` + (wanted ? `, ${found.length.toLocaleString("en")} found` : "");
  const entries = [];
  if (end && !wanted) entries.push(...tokens.eos.map(id => entry("the end", id, null)));
  for (const i of found.slice(0, MAX_LISTED)) entries.push(entry(visible(tokens.tokens[i]), tokens.ids[i], tokens.tokens[i]));
  if (found.length > MAX_LISTED) {
    const rest = document.createElement("span");
    rest.className = "hint";
    rest.textContent = `and ${(found.length - MAX_LISTED).toLocaleString("en")} more: search`;
    entries.push(rest);
  }
  $("mask").replaceChildren(...entries);
}

function entry(text, id, bytes) {
  const button = document.createElement("button");
  button.type = "button";
  const small = document.createElement("small");
  small.textContent = id;
  button.append(text, small);
  const whole = bytes && walk.read === walk.bytes.length ? decode(Uint8Array.from([...walk.bytes, ...bytes])) : null;
  button.disabled = whole === null;
  if (bytes && whole === null) button.title = "ends inside a character: it cannot be typed";
  button.addEventListener("click", () => { stopJump(); $("retokenized").hidden = true; setText(whole); });
  return button;
}

function holds(token, needle) {
  outer: for (let i = 0; i + needle.length <= token.length; i++) {
    for (let j = 0; j < needle.length; j++) if (token[i + j] !== needle[j]) continue outer;
    return true;
  }
  return false;
}

// ── the summary ────────────────────────────────────────────────────────────────────────────────────────────────────────

function summary() {
  let forced = 0, ends = 0, unexplored = 0;
  for (let s = 0; s < machine.nStates; s++) {
    const first = machine.offsets[s], only = machine.offsets[s + 1] === first + 1;
    if (only && machine.final[s] === -1 && machine.sizes[machine.bytes[first]] === 1) forced++;
    if (machine.final[s] >= 0) ends++;
    if (machine.final[s] === NOT_EXPLORED) unexplored++;
  }
  const n = value => value.toLocaleString("en");
  const rows = { states: n(machine.nStates) + (machine.isWhole ? "" : " (not all of them)"), edges: n(machine.kind.length), "may end in": n(ends),
    "force a byte": `${n(forced)} (${Math.round((100 * forced) / machine.nStates)}%)`, parts: n(machine.components.length) };
  if (unexplored) rows["not explored"] = n(unexplored);
  for (const [name, value] of Object.entries(rows)) {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name; dd.textContent = value;
    $("figures").append(dt, dd);
  }
  if (machine.components.length > 1) parts(); else if (machine.nStates > ALL_AT_ONCE) depths();
  const veryLarge = machine.components.some(component => component.states > ALL_AT_ONCE * 6);
  $("strip").textContent = `${n(machine.nStates)} states, ${rows["force a byte"].replace(/.*\(|\)/g, "")} of them force a byte`
    + (veryLarge ? "; drawn are those near the start and the walk: +2 means two more ways on" : "");
  if (veryLarge) { // what a drawing cannot show comes first
    $("token-part").before($("summary"));
    $("summary").open = true;
  }
}

function parts() {
  const heading = document.createElement("h2");
  heading.textContent = "Parts: draw one by itself";
  $("parts").append(heading);
  machine.components.slice(0, 200).forEach((component, c) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${component.label} · ${countStates(component.states)}`;
    button.addEventListener("click", () => { graph.drawPart(c); redraw(true); mark(); around(); });
    $("parts").append(button);
  });
}

// How many states are how far from the start: the shape of a machine too large to draw.
function depths() {
  const far = new Int32Array(machine.nStates).fill(-1), counts = [], first = [];
  let layer = [0];
  far[0] = 0;
  for (let d = 0; layer.length; d++) {
    counts.push(layer.length); first.push(layer[0]);
    const next = [];
    for (const s of layer) for (let e = machine.offsets[s]; e < machine.offsets[s + 1]; e++) {
      const t = machine.target[e];
      if (machine.kind[e] === PLAIN && far[t] < 0) { far[t] = d + 1; next.push(t); }
    }
    layer = next;
  }
  const heading = document.createElement("h2");
  heading.textContent = "States by distance from the start (logarithmic)";
  const bars = Math.min(counts.length, 120), size = Math.ceil(counts.length / bars), most = Math.max(...counts);
  const says = `the farthest state is ${counts.length - 1} bytes from the start; most, ${most.toLocaleString("en")}, are at distance ${counts.indexOf(most)}`;
  const chart = svg("svg", { viewBox: `0 0 ${bars * 3} 40`, preserveAspectRatio: "none", role: "img", "aria-label": says });
  for (let i = 0; i < counts.length; i += size) {
    const height = Math.max(0.6, (38 * Math.log1p(Math.max(...counts.slice(i, i + size)))) / Math.log1p(most));
    chart.append(svg("rect", { x: (i / size) * 3, y: 40 - height, width: 2.4, height }));
  }
  const caption = document.createElement("p");
  caption.className = "hint";
  caption.textContent = says[0].toUpperCase() + says.slice(1) + ".";
  $("depths").append(heading, chart, caption);
}

// ── start ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

function theme() {
  const dark = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.documentElement.dataset.theme = dark === "dark" ? "light" : "dark";
}

$("kind").textContent = data.kind;
$("title").textContent = data.title.slice(0, 2000).replace(/\s+/g, " ").slice(0, 300);
$("source").textContent = data.title;
document.title = `${data.title.slice(0, 60)} · fsmc view`;
$("token-part").hidden = !tokens;
$("text").value = data.text;
$("text").addEventListener("input", edited);
$("text").addEventListener("keydown", event => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); jump(); } });
$("jump").title = "Ctrl+Enter in the text field";
$("jump").addEventListener("click", jump);
$("back").addEventListener("click", () => { setText([...$("text").value].slice(0, -1).join("")); edited(); });
$("clear").addEventListener("click", () => { setText(""); edited(); $("text").focus(); });
$("search").addEventListener("input", () => fillMask());
$("theme").addEventListener("click", theme);
$("closer").addEventListener("click", () => drawing.zoom(1 / 1.3));
$("farther").addEventListener("click", () => drawing.zoom(1.3));
$("fit").addEventListener("click", () => drawing.fit(true));
$("from-start").addEventListener("click", () => {
  graph.restart();
  graph.opened.clear(); graph.more.clear();
  drawnFor = "";
  update();
});
summary();
update();
