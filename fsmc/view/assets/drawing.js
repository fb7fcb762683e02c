"use strict";
// The drawing: dagre lays the graph out, SVG shows it, and it can be moved, scaled and walked with the keyboard.

const RADIUS = 15, CHARACTER = 7.2, MAX_LABEL = 26;

function svg(name, attributes = {}, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const countStates = n => (n === 1 ? "1 state" : `${n.toLocaleString("en")} states`);
function short(text, most = MAX_LABEL) {
  const length = Math.floor(Math.max(3, Math.min(most, MAX_LABEL)));
  return text.length > length ? text.slice(0, length - 1) + "…" : text;
}

// The point of a state's circle that faces another point.
function onCircle(center, towards) {
  const dx = towards.x - center.x, dy = towards.y - center.y, length = Math.hypot(dx, dy) || 1;
  return { x: center.x + (RADIUS * dx) / length, y: center.y + (RADIUS * dy) / length };
}

class Drawing {
  constructor(canvas, onOpen) {
    this.canvas = canvas;
    this.onOpen = onOpen;
    this.view = { x: 0, y: 0, width: 100, height: 100 };
    this.elements = new Map();
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
    const layout = new dagre.graphlib.Graph({ compound: true, multigraph: true });
    layout.setGraph({ rankdir: wide ? "LR" : "TB", nodesep: 22, ranksep: 34, edgesep: 12, marginx: 24, marginy: 24 });
    layout.setDefaultEdgeLabel(() => ({}));
    const loops = new Set(graph.edges.filter(edge => edge.from === edge.to).map(edge => edge.from));
    for (const node of graph.nodes.values()) {
      const label = node.kind === "box" ? node.label : "";
      const size = node.kind === "state" ? 2 * RADIUS : node.kind === "exit" ? 12 : 0;
      layout.setNode(node.id, node.open ? {} : { width: size || Math.min(label.length, MAX_LABEL) * CHARACTER + 40, height: (size || 40) + (loops.has(node.id) ? 64 : 0) });
    }
    for (const node of graph.nodes.values()) if (node.parent) layout.setParent(node.id, node.parent);
    graph.edges.forEach((edge, i) => {
      edge.name = "e" + i;
      if (edge.from === edge.to) return; // dagre has no place for loops that could be read: they sit on top
      const label = short(edge.label) + short(edge.text);
      layout.setEdge(edge.from, edge.to, { width: label ? label.length * CHARACTER + 14 : 0, height: label ? 20 : 0, labelpos: "c" }, edge.name);
    });
    dagre.layout(layout);
    this.canvas.replaceChildren(this.markers());
    this.elements.clear();
    const layers = ["boxes", "lines", "nodes", "labels"].map(name => this.canvas.appendChild(svg("g", { class: name })));
    this.between = new Map(); // from → to → edges
    for (const edge of graph.edges) {
      if (!this.between.has(edge.from)) this.between.set(edge.from, new Map());
      const found = this.between.get(edge.from);
      found.set(edge.to, [...(found.get(edge.to) || []), edge]);
    }
    const depth = id => { let n = 0; for (let p = layout.parent(id); p; p = layout.parent(p)) n++; return n; };
    const nodes = [...graph.nodes.values()].sort((a, b) => depth(a.id) - depth(b.id));
    for (const node of nodes) this.node(node, layout.node(node.id), layers[node.open ? 0 : 2], layers[3]);
    for (const edge of graph.edges) {
      const [from, to] = [layout.node(edge.from), layout.node(edge.to)];
      if (edge.from === edge.to) this.loop(edge, from, layers[1], layers[3]);
      else {
        const at = layout.edge(edge.from, edge.to, edge.name), kinds = [graph.nodes.get(edge.from).kind, graph.nodes.get(edge.to).kind];
        if (kinds[0] === "state") at.points[0] = onCircle(from, at.points[1]);
        if (kinds[1] === "state") at.points[at.points.length - 1] = onCircle(to, at.points[at.points.length - 2]);
        this.edge(edge, at, layers[1], layers[3]);
      }
    }
    this.size = { width: layout.graph().width, height: layout.graph().height };
    this.wide = wide;
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

  node(node, at, layer, labels) {
    if (node.kind === "state") {
      const many = node.hidden > 0 || node.unexplored;
      const says = `state ${node.number}` + (node.start ? ", the start" : "") + (node.final ? ", the text may end here" : "")
        + (node.unexplored ? ", not explored" : node.hidden ? `, ${node.hidden} more ways on: open` : "");
      const g = svg("g", { class: "state" + (node.start ? " start" : "") + (node.final ? " final" : "") + (node.unexplored ? " unexplored" : ""),
        transform: `translate(${at.x} ${at.y})`, "aria-label": says, role: node.hidden ? "button" : "img" });
      if (node.hidden) this.clickable(g, node);
      g.append(svg("title", {}, says), svg("circle", { r: RADIUS }));
      if (node.final) g.append(svg("circle", { r: RADIUS - 4 }));
      g.append(svg("text", { class: "number" + (node.number > 9999 ? " long" : "") }, node.number));
      if (many) g.append(svg("text", { class: "hidden", x: RADIUS + 2, y: -RADIUS + 1 }, node.unexplored ? "?" : "+" + node.hidden));
      layer.append(g);
      this.elements.set(node.id, g);
    } else if (node.kind === "exit") {
      const g = svg("g", { class: "exit", transform: `translate(${at.x} ${at.y})`, role: "img", "aria-label": `end of the part, outcome ${node.outcome}` });
      g.append(svg("title", {}, `the part ends, outcome ${node.outcome}`), svg("rect", { x: -6, y: -6, width: 12, height: 12, rx: 2 }));
      layer.append(g);
      this.elements.set(node.id, g);
    } else {
      const says = `${node.label}, ${countStates(node.states)}, ${node.open ? "close" : "open"}`;
      const g = svg("g", { class: "box" + (node.open ? " open" : ""), role: "button", "aria-expanded": node.open, "aria-label": says });
      this.clickable(g, node);
      const x = at.x - at.width / 2, y = at.y - at.height / 2;
      g.append(svg("title", {}, says), svg("rect", { x, y, width: at.width, height: at.height, rx: 9 }));
      if (node.open) g.append(svg("text", { x: x + 10, y: y + 13, class: "name left" }, "▾ " + short(node.label, (at.width - 36) / CHARACTER)));
      else {
        g.append(svg("text", { x: at.x, y: at.y - 6, class: "name" }, "▸ " + short(node.label) + " ")); // else a reader runs it into the count
        g.append(svg("text", { x: at.x, y: at.y + 10, class: "count" }, countStates(node.states)));
      }
      layer.append(g);
      this.elements.set(node.id, g);
    }
  }

  edge(edge, at, layer, labels) {
    const points = at.points;
    let d = `M${points[0].x} ${points[0].y}`;
    for (let i = 1; i < points.length - 1; i++) {
      const next = i === points.length - 2 ? points[i + 1] : { x: (points[i].x + points[i + 1].x) / 2, y: (points[i].y + points[i + 1].y) / 2 };
      d += ` Q${points[i].x} ${points[i].y} ${next.x} ${next.y}`;
    }
    if (points.length === 2) d += ` L${points[1].x} ${points[1].y}`;
    const line = svg("path", { d, class: "line" + (edge.thick ? " thick" : "") + (edge.dotted ? " dotted" : ""), "marker-end": "url(#arrow)" });
    layer.append(line);
    this.elements.set(edge, line);
    const straight = points.every(point => Math.abs(point.y - points[0].y) < 5); // there the label sits on the line, else in it
    this.label(edge, at.x, at.y - (straight || edge.thick ? 11 : 0), labels);
  }

  loop(edge, at, layer, labels) {
    const y = at.y - RADIUS + 1;
    const d = `M${at.x - 7} ${y + 2} C${at.x - 26} ${y - 30} ${at.x + 26} ${y - 30} ${at.x + 7} ${y + 2}`;
    const line = svg("path", { d, class: "line", "marker-end": "url(#arrow)" });
    layer.append(line);
    this.elements.set(edge, line);
    this.label(edge, at.x, y - 31, labels);
  }

  label(edge, x, y, labels) {
    if (!edge.label && !edge.text) return;
    const text = svg("text", { x, y, class: "label" });
    text.append(svg("title", {}, edge.label && edge.text ? `${edge.label}, then forced: ${edge.text}` : edge.label + edge.text));
    if (edge.label) text.append(svg("tspan", {}, short(edge.label) + (edge.text ? " " : "")));
    if (edge.text) text.append(svg("tspan", { class: edge.thick ? "forced" : "" }, short(edge.text)));
    labels.append(text);
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
