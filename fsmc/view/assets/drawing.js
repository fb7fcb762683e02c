"use strict";
// The drawing: dagre lays the graph out, SVG shows it, and it can be moved, scaled and walked with the keyboard.

const TITLE = 9; // more room for the title of an open box
const RADIUS = 15, CHARACTER = 7.2, MAX_LABEL = 26, LOOP = 44; // a loop and its label reach so far above a state

function svg(name, attributes = {}, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const countStates = n => (n === 1 ? "1 state" : `${n.toLocaleString("en")} states`);
function short(text, most = MAX_LABEL) {
  const length = Math.floor(Math.max(3, most));
  return text.length > length ? text.slice(0, length - 1) + "…" : text;
}

// The point of a state's circle that faces another point.
function onCircle(center, towards) {
  const dx = towards.x - center.x, dy = towards.y - center.y, length = Math.hypot(dx, dy) || 1;
  return { x: center.x + (RADIUS * dx) / length, y: center.y + (RADIUS * dy) / length };
}

// Where an edge leaves a state for another point; of one with a loop on top, around the loop's label.
function leave({ x, y, width, height }, towards, wide) {
  const center = { x, y }, side = Math.sign(towards.x - x), below = y - (height / 2 - LOOP) - 12;
  const isUnder = y + ((towards.y - y) * width) / 2 / (Math.abs(towards.x - x) || 1) >= below;
  if (!wide || height <= 2 * LOOP || isUnder || side * (towards.x - x) <= width / 2) return [onCircle(center, towards)];
  const corner = { x: x + (side * width) / 2, y: below };
  return [onCircle(center, corner), corner];
}

const IN = "in", OUT = "out"; // where edges come into an open box and leave it

// Where an edge passes the border of a box, level with a place inside: as a list.
function onBorder({ x, y }, { x: cx, y: cy, width, height }, wide, comesIn) {
  const side = comesIn ? -1 : 1;
  return wide ? [{ x: cx + (side * width) / 2, y }] : [{ x, y: cy + (side * height) / 2 }];
}

// An edge that leaves a box on the far side of where it leads: it goes round the box, in the room that is between boxes.
function roundIt({ x, y, width, height }, next, wide) {
  if (wide ? next.x >= x : next.y >= y) return [];
  const left = x - width / 2 - 9, right = x + width / 2 + 9, high = y - height / 2 - 9, low = y + height / 2 + 9;
  if (wide) return [right, left].map(side => ({ x: side, y: next.y < y ? high - TITLE : low }));
  return [low, high].map(side => ({ x: next.x < x ? left : right, y: side }));
}

const labelLength = edge => (edge.label ? short(edge.label) + (edge.text ? " " : "") : "").length + short(edge.text).length;

// A curve through all points that turns back nowhere between them: cubic pieces with the slopes of Fritsch and Carlson, level at one point.
// The axis is that in which the drawing grows, across the other.
function through(points, level, axis, across) {
  const slope = points.slice(1).map((point, i) => (point[across] - points[i][across]) / (point[axis] - points[i][axis]));
  const grows = points.slice(1).map((point, i) => Math.sign(point[axis] - points[i][axis]));
  const slopes = points.map((_, i) => {
    const before = slope[i - 1], after = slope[i];
    if (i === 0 || i === points.length - 1) return null;
    return points[i] === level || grows[i - 1] !== grows[i] || !(before * after > 0) ? 0 : (2 * before * after) / (before + after);
  });
  const end = (own, next) => (next === null ? own : (3 * own - next) / 2);
  slopes[0] = end(slope[0], slopes[1]);
  slopes[points.length - 1] = end(slope[slope.length - 1], slopes[points.length - 2]);
  let d = `M${points[0].x} ${points[0].y}`;
  for (let i = 0; i + 1 < points.length; i++) {
    const [from, to] = [points[i], points[i + 1]], third = (to[axis] - from[axis]) / 3;
    if (Math.abs(third) < 1) { d += ` L${to.x} ${to.y}`; continue; }
    const controls = [[from, third, slopes[i]], [to, -third, slopes[i + 1]]].map(([point, step, s]) => ({ [axis]: point[axis] + step, [across]: point[across] + step * s }));
    d += ` C${controls[0].x} ${controls[0].y} ${controls[1].x} ${controls[1].y} ${to.x} ${to.y}`;
  }
  return d;
}

class Drawing {
  constructor(canvas, onOpen) {
    this.canvas = canvas;
    this.onOpen = onOpen;
    this.view = { x: 0, y: 0, width: 100, height: 100 };
    this.elements = new Map();
    this.layouts = new Map(); // form → layout
    this.isScaled = false; // by hand
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, event.offsetX / canvas.clientWidth, event.offsetY / canvas.clientHeight);
    }, { passive: false });
    canvas.addEventListener("keydown", event => this.key(event));
    this.dragging();
    new ResizeObserver(() => this.shape()).observe(canvas);
  }

  draw(graph) {
    const wide = this.canvas.clientWidth > 620;
    const { places, ways, size } = this.layout(graph, wide);
    this.canvas.replaceChildren(this.markers());
    this.elements.clear();
    this.labels = new Map(); // edge → its text
    const layers = ["boxes", "lines", "nodes", "labels"].map(name => this.canvas.appendChild(svg("g", { class: name })));
    this.between = new Map(); // from → to → edges
    for (const edge of graph.edges) {
      if (!this.between.has(edge.from)) this.between.set(edge.from, new Map());
      const found = this.between.get(edge.from);
      found.set(edge.to, [...(found.get(edge.to) || []), edge]);
    }
    const depth = id => { let n = 0; for (let p = graph.nodes.get(id).parent; p; p = graph.nodes.get(p).parent) n++; return n; };
    const nodes = [...graph.nodes.values()].sort((a, b) => depth(a.id) - depth(b.id));
    for (const node of nodes) this.node(node, places.get(node.id), layers[node.open ? 0 : 2], layers[3]);
    graph.edges.forEach((edge, i) => {
      const [from, to] = [places.get(edge.from), places.get(edge.to)];
      if (edge.from === edge.to) { this.loop(edge, from, wide, layers[1], layers[3]); return; }
      const points = [...ways[i].points];
      if (graph.nodes.get(edge.from).kind === "state") points.splice(0, 1, ...leave(from, points[1], wide));
      if (graph.nodes.get(edge.to).kind === "state") points.splice(-1, 1, ...leave(to, points[points.length - 2], wide).reverse());
      this.edge(edge, { x: ways[i].x, y: ways[i].y, points }, wide, layers[1], layers[3]);
    });
    this.size = size;
    this.wide = wide;
  }

  // Where all is: {places: id → {x, y, width, height}, ways: of each edge {x, y, points}, size}. Each open box is laid out by itself, and is one
  // node where it stands: what is large is made of small layouts, and no edge crosses a box that it has nothing to do with.
  layout(graph, wide) {
    const inner = new Map(), depths = new Map(); // box (or null) → {nodes, edges, …}; its depth
    const parent = id => graph.nodes.get(id).parent;
    const within = box => {
      if (!inner.has(box)) inner.set(box, { nodes: [], links: [] });
      return inner.get(box);
    };
    const depth = box => {
      if (box === null) return 0;
      if (!depths.has(box)) depths.set(box, 1 + depth(parent(box)));
      return depths.get(box);
    };
    for (const node of graph.nodes.values()) within(node.parent).nodes.push(node);
    graph.edges.forEach((edge, i) => { // an edge into a box or out of it is two: to its border, and on
      if (edge.from === edge.to) return;
      const [from, to] = [parent(edge.from), parent(edge.to)];
      if (from === to) within(from).links.push({ i, from: edge.from, to: edge.to, length: labelLength(edge) });
      else if (depth(from) < depth(to)) {
        within(from).links.push({ i, from: edge.from, to, length: labelLength(edge) });
        within(to).links.push({ i, from: IN, to: edge.to, length: 0 });
      } else {
        within(to).links.push({ i, from, to: edge.to, length: labelLength(edge) });
        within(from).links.push({ i, from: edge.from, to: OUT, length: 0 });
      }
    });
    const loops = new Map(graph.edges.filter(edge => edge.from === edge.to).map(edge => [edge.from, labelLength(edge) * CHARACTER]));
    const boxes = [...inner.keys()].sort((a, b) => depth(b) - depth(a)); // the innermost first
    for (const box of boxes) {
      const part = inner.get(box);
      part.found = this.part(part, wide, node => (node.open && inner.has(node.id) ? inner.get(node.id).found.size : this.room(node, loops.get(node.id), wide)));
    }
    const places = new Map(), ways = [];
    for (const box of boxes.reverse()) {
      const { nodes, links, found } = inner.get(box), at = box === null ? null : places.get(box);
      const shift = at ? { x: at.x - at.width / 2, y: at.y - at.height / 2 } : { x: 0, y: 0 };
      const moved = ({ x, y }) => ({ x: x + shift.x, y: y + shift.y });
      nodes.forEach((node, n) => places.set(node.id, { ...found.places[n], ...moved(found.places[n]) }));
      links.forEach(({ i, from, to }, n) => {
        const way = found.ways[n], points = way.points.map(moved);
        if (from === IN) ways[i].points.splice(-1, 1, ...onBorder(points[0], at, wide, true), ...points.slice(1));
        else if (to === OUT) ways[i].points.splice(0, 1, ...points.slice(0, -1), ...onBorder(points[points.length - 1], at, wide, false), ...roundIt(at, ways[i].points[0], wide));
        else ways[i] = { ...moved(way), points };
      });
    }
    return { places, ways, size: inner.get(null).found.size };
  }

  // How much room a node takes, with its loop.
  room(node, loop, wide) {
    const size = node.kind === "state" ? 2 * RADIUS : node.kind === "exit" ? 12 : 0;
    const width = size || Math.min(node.label.length, MAX_LABEL) * CHARACTER + 40, height = size || 40;
    if (loop === undefined) return { width, height };
    return wide ? { width: Math.max(width, loop + 8), height: height + 2 * LOOP } : { width: width + 2 * (loop + 28), height };
  }

  // One box, or the whole, by itself. What has the same form is laid out once: a part that calls itself looks the same at any depth.
  part({ nodes, links }, wide, sizeOf) {
    const number = new Map(nodes.map((node, n) => [node.id, n])), sizes = nodes.map(sizeOf);
    for (const { from, to } of links) for (const end of [from, to]) if (!number.has(end)) { number.set(end, sizes.length); sizes.push({ width: 0, height: 0 }); }
    const ends = links.map(({ from, to, length }) => [number.get(from), number.get(to), length]);
    const form = JSON.stringify([wide, sizes.map(({ width, height }) => [width, height]), ends]);
    if (!this.layouts.has(form)) {
      if (this.layouts.size > 300) this.layouts.clear();
      const layout = new dagre.graphlib.Graph({ multigraph: true });
      layout.setGraph({ rankdir: wide ? "LR" : "TB", nodesep: 22, ranksep: 40, edgesep: 12, marginx: 24, marginy: 24 });
      sizes.forEach(({ width, height }, n) => layout.setNode(String(n), { width, height }));
      ends.forEach(([from, to, length], n) => { // dagre has no place for loops that could be read: they sit on top
        layout.setEdge(String(from), String(to), { width: length ? length * CHARACTER + 14 : 0, height: length ? 26 : 0, labelpos: "c" }, "e" + n);
      });
      dagre.layout(layout);
      this.layouts.set(form, {
        places: nodes.map((_, n) => layout.node(String(n))),
        ways: ends.map(([from, to], n) => layout.edge(String(from), String(to), "e" + n)),
        size: { width: layout.graph().width, height: layout.graph().height },
      });
    }
    return this.layouts.get(form);
  }

  markers() {
    const defs = svg("defs");
    for (const name of ["arrow", "arrow-now"]) {
      const marker = svg("marker", { id: name, viewBox: "0 0 8 8", refX: 7.5, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" });
      marker.append(svg("path", { d: "M0 .5 8 4 0 7.5z", class: name }));
      defs.append(marker);
    }
    return defs;
  }

  node(node, at, layer, titles) {
    if (node.kind === "state") {
      const many = node.hidden > 0 || node.unexplored;
      const says = `state ${node.number}` + (node.unexplored ? ", not explored" : node.hidden ? `, +${node.hidden} more ways on: open` : "") // as it is seen: 7 +2
        + (node.start ? ", the start" : "") + (node.final ? ", the text may end here" : "");
      const g = svg("g", { class: "state" + (node.start ? " start" : "") + (node.final ? " final" : "") + (node.unexplored ? " unexplored" : ""),
        transform: `translate(${at.x} ${at.y})`, "aria-label": says, role: node.hidden ? "button" : "img" });
      if (node.hidden) this.clickable(g, node);
      g.append(svg("title", {}, says), svg("circle", { r: RADIUS }));
      if (node.final) g.append(svg("circle", { r: RADIUS - 4 }));
      g.append(svg("text", { class: "number" + (node.number > 9999 ? " longer" : node.number > 999 ? " long" : "") }, node.number));
      if (many) g.append(svg("text", { class: "hidden", x: RADIUS + 2, y: -RADIUS + 1 }, node.unexplored ? "?" : "+" + node.hidden));
      layer.append(g);
      this.elements.set(node.id, g);
    } else if (node.kind === "exit") {
      const g = svg("g", { class: "exit", transform: `translate(${at.x} ${at.y})`, role: "img", "aria-label": `the part ends: ${node.name}` });
      g.append(svg("title", {}, `the part ends: ${node.name}`), svg("rect", { x: -6, y: -6, width: 12, height: 12, rx: 2 }));
      layer.append(g);
      this.elements.set(node.id, g);
    } else {
      const shown = node.open ? short(node.label, (at.width - 36) / CHARACTER) : short(node.label), count = countStates(node.states);
      const says = `${shown}, ${count}, ${node.open ? "close" : "open"}` + (shown === node.label ? "" : `: ${node.label}`); // it begins with what is seen
      const g = svg("g", { class: "box" + (node.open ? " open" : ""), role: "button", "aria-expanded": node.open, "aria-label": says });
      this.clickable(g, node);
      const strip = node.open ? TITLE : 0; // above what the layout gave it, where no label lies
      const x = at.x - at.width / 2, y = at.y - at.height / 2 - strip;
      g.append(svg("title", {}, says), svg("rect", { x, y, width: at.width, height: at.height + strip, rx: 9 }));
      if (node.open) titles.append(svg("text", { x: x + 10, y: y + 13, class: "name left", "aria-hidden": true }, "▾ " + shown)); // on top of lines
      else {
        g.append(svg("text", { x: at.x, y: at.y - 6, class: "name" }, "▸ " + shown + " ")); // else a reader runs it into the count
        g.append(svg("text", { x: at.x, y: at.y + 10, class: "count" }, count));
      }
      layer.append(g);
      this.elements.set(node.id, g);
    }
  }

  // The curve passes the place that the layout keeps free for the label: there it is level and the label on top of it, in a tall drawing
  // upright and the label across it.
  edge(edge, { x, y, points }, wide, layer, labels) {
    const level = labelLength(edge) ? points.slice(1, -1).find(point => Math.hypot(point.x - x, point.y - y) < 1) : null;
    const d = through(points, level, ...(wide ? ["x", "y"] : ["y", "x"]));
    const line = svg("path", { d, class: "line" + (edge.thick ? " thick" : "") + (edge.dotted ? " dotted" : ""), "marker-end": "url(#arrow)" });
    layer.append(line);
    this.elements.set(edge, line);
    this.label(edge, x, wide ? y - 10 : y, labels);
  }

  // On top of its state, or beside it where the other edges come from above.
  loop(edge, { x, y }, wide, layer, labels) {
    const top = y - RADIUS + 1, side = x + RADIUS - 1;
    const d = wide ? `M${x - 7} ${top + 2} C${x - 26} ${top - 30} ${x + 26} ${top - 30} ${x + 7} ${top + 2}` : `M${side - 2} ${y - 7} C${side + 30} ${y - 26} ${side + 30} ${y + 26} ${side - 2} ${y + 7}`;
    const line = svg("path", { d, class: "line", "marker-end": "url(#arrow)" });
    layer.append(line);
    this.elements.set(edge, line);
    this.label(edge, wide ? x : side + 27 + (labelLength(edge) * CHARACTER) / 2, wide ? top - 31 : y, labels);
  }

  label(edge, x, y, labels) {
    if (!edge.label && !edge.text) return;
    const text = svg("text", { x, y, class: "label" }), width = labelLength(edge) * CHARACTER;
    text.append(svg("title", {}, edge.label && edge.text ? `${edge.label}, then forced: ${edge.text}` : edge.label + edge.text));
    if (edge.label) text.append(svg("tspan", {}, short(edge.label) + (edge.text ? " " : "")));
    if (edge.text) text.append(svg("tspan", { class: edge.thick ? "forced" : "" }, short(edge.text)));
    labels.append(svg("rect", { x: x - width / 2, y: y - 7, width, height: 14, class: "behind" }), text);
    this.labels.set(edge, text);
  }

  // The edges that were taken from one node to the next, where the drawing has only one way: by an edge, or out of an open part.
  way(from, to) {
    const edges = this.between.get(from) || new Map(), direct = edges.get(to) || [];
    if (direct.length) return direct.length === 1 ? direct : [];
    for (const [middle, [edge]] of edges) {
      const on = middle.includes("!") && this.between.get(middle);
      if (on && on.has(to)) return [edge, on.get(to)[0]];
    }
    return [];
  }

  clickable(element, node) {
    element.setAttribute("tabindex", "0");
    element.addEventListener("click", () => { if (!this.moved) this.onOpen(node); });
    element.addEventListener("focus", () => { if (element.matches(":focus-visible")) this.reveal(element); });
    element.addEventListener("keydown", event => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.onOpen(node); }
    });
  }

  // Mark where the walk is and which edges it took; keep the place in sight.
  mark(places, here) {
    for (const element of this.elements.values()) element.classList.remove("now", "trail");
    const passed = new Set();
    places.forEach((place, i) => {
      if (!place) return;
      passed.add(place.node || place.edge);
      const before = i > 0 && places[i - 1];
      if (before && before.node && place.node) for (const edge of this.way(before.node, place.node)) passed.add(edge);
    });
    for (const key of passed) if (this.elements.has(key)) this.elements.get(key).classList.add("trail");
    const element = here && this.elements.get(here.node || here.edge);
    if (!element) return;
    element.classList.add("now");
    const box = element.getBBox();
    let center = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    const transform = element.transform.baseVal;
    if (transform.numberOfItems) center = { x: transform.getItem(0).matrix.e, y: transform.getItem(0).matrix.f };
    else if (here.edge) center = element.getPointAtLength(element.getTotalLength() * here.part);
    if (here.edge) {
      const dot = svg("circle", { r: 6, cx: center.x, cy: center.y, class: "dot" });
      this.canvas.querySelectorAll(".dot").forEach(old => old.remove());
      this.canvas.append(dot);
    } else this.canvas.querySelectorAll(".dot").forEach(old => old.remove());
    const { x, y, width, height } = this.view, margin = 0.03, above = this.wide ? 0.22 : margin;
    if (center.x < x + width * margin || center.x > x + width * (1 - margin)) this.view.x = center.x - width * (this.wide ? 0.4 : 0.5);
    if (center.y < y + height * above || center.y > y + height * (1 - above)) this.view.y = center.y - height / 2;
    this.apply();
  }

  // Move the drawing so that an element is in sight, or as much of it as there is room for.
  reveal(element) {
    const { x, y, width, height } = element.getBBox(), { e, f } = element.transform.baseVal.consolidate()?.matrix ?? { e: 0, f: 0 };
    const into = (from, size, view, room) => {
      const space = Math.max(0, Math.min(24, (room - size) / 2)); // around it
      if (size > room) return from < view && from + size > view + room ? view : from;
      return Math.min(Math.max(view, from + size + space - room), from - space);
    };
    this.view.x = into(x + e, width, this.view.x, this.view.width);
    this.view.y = into(y + f, height, this.view.y, this.view.height);
    this.apply();
  }

  // ── moving ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

  // How many units of the drawing a pixel is.
  scale(whole) {
    const { clientWidth, clientHeight } = this.canvas;
    const scale = Math.max(this.size.width / clientWidth, this.size.height / clientHeight, 0.75);
    return whole ? scale : Math.min(scale, 1.05); // smaller letters cannot be read: rather show a part
  }

  // After the drawing has grown or shrunk: as large as fits and can be read, unless someone chose a scale.
  rescale() {
    if (this.isScaled) return;
    this.zoom((this.scale(false) * this.canvas.clientWidth) / this.view.width);
    this.isScaled = false;
    if (this.size.width <= this.view.width) this.view.x = (this.size.width - this.view.width) / 2;
    if (this.size.height <= this.view.height) this.view.y = (this.size.height - this.view.height) / 2;
  }

  fit(whole = false) {
    const scale = this.scale(whole), width = this.canvas.clientWidth * scale, height = this.canvas.clientHeight * scale;
    this.isScaled = whole;
    const fits = (size, room) => (size <= room ? (size - room) / 2 : 0);
    this.view = { x: fits(this.size.width, width), y: this.size.height <= height ? (this.size.height - height) / 2 : Math.max(0, this.startAt("y") - height / 2), width, height };
    if (!this.wide) this.view.x = this.size.width <= width ? (this.size.width - width) / 2 : Math.max(0, this.startAt("x") - width / 2);
    this.apply();
  }

  startAt(axis) {
    const start = this.canvas.querySelector(".start");
    return start ? start.transform.baseVal.getItem(0).matrix[axis === "x" ? "e" : "f"] : 0;
  }

  shape() {
    if (this.size && this.canvas.clientWidth) { this.view.height = (this.view.width * this.canvas.clientHeight) / this.canvas.clientWidth; this.apply(); }
  }

  zoom(factor, fx = 0.5, fy = 0.5) {
    const { x, y, width, height } = this.view;
    if (width * factor < 60 || width * factor > 400000) return;
    this.isScaled = true;
    this.view = { x: x + width * fx * (1 - factor), y: y + height * fy * (1 - factor), width: width * factor, height: height * factor };
    this.apply();
  }

  move(dx, dy) {
    this.view.x += dx * this.view.width;
    this.view.y += dy * this.view.height;
    this.apply();
  }

  apply() {
    const { x, y, width, height } = this.view;
    this.canvas.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  }

  key(event) {
    const moves = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (moves[event.key]) this.move(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(1 / 1.2);
    else if (event.key === "-") this.zoom(1.2);
    else if (event.key === "0") this.fit(true);
    else return;
    event.preventDefault();
  }

  dragging() {
    const pointers = new Map();
    let spread = 0;
    this.canvas.addEventListener("pointerdown", event => {
      pointers.set(event.pointerId, event);
      this.moved = false;
      spread = 0;
    });
    this.canvas.addEventListener("pointermove", event => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const scale = this.view.width / this.canvas.clientWidth;
      const dx = event.clientX - before.clientX, dy = event.clientY - before.clientY;
      if (pointers.size === 2) {
        pointers.set(event.pointerId, event);
        const [a, b] = [...pointers.values()];
        const now = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
        if (spread) this.zoom(spread / now);
        spread = now;
        this.moved = true;
      } else if (this.moved || Math.hypot(dx, dy) > 4) {
        if (!this.moved) this.canvas.setPointerCapture(event.pointerId);
        this.moved = true;
        this.view.x -= dx * scale;
        this.view.y -= dy * scale;
        this.apply();
        pointers.set(event.pointerId, event);
      }
    });
    const end = event => { pointers.delete(event.pointerId); spread = 0; };
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) this.canvas.addEventListener(name, end);
  }
}
