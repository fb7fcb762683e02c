"use strict";
// What is drawn: states, chains of forced bytes as one edge, calls as boxes that open. Nothing here knows of pixels.

const ALL_AT_ONCE = 70; // states of a component that is drawn whole
const STEP = 14; // states that come with one click, and of which a large component shows the nearest at first
const MAX_OPEN = 3; // boxes in each other that the walk opens: of a deeper one the parts around are named, not drawn
const MAX_AROUND = 70; // states and boxes that are drawn for the sake of those around: fewer boxes are open where they hold much

class Graph {
  constructor(machine) {
    this.machine = machine;
    this.indegree = new Int32Array(machine.nStates);
    for (let e = 0; e < machine.kind.length; e++) if (machine.kind[e] === PLAIN) this.indegree[machine.target[e]]++;
    for (const known of machine.returns.values()) for (const state of known.values()) this.indegree[state]++;
    for (const component of machine.components) for (const entry of component.entries) this.indegree[entry] += 2;
    this.arcsOf = new Map();
    this.opened = new Set(); // boxes opened by hand
    this.followed = new Set(); // boxes that the walk is in
    this.more = new Map(); // instance → states to show although they are far from the start
    this.trail = new Map(); // the same, of the last steps of the walk
    this.paths = new Map(); // instance, calling state, call → the instance inside
    this.sizes = new Map(); // entries → states and boxes
    this.around = []; // what the walk is in and what is not drawn, the innermost first: the drawing is of the inside of that one
    this.restart();
  }

  // Draw the whole; or one part by itself.
  restart() { this.root = { path: "", component: this.machine.component[0], entries: [0], isWhole: true }; }
  drawPart(component) {
    const { entries } = this.machine.components[component];
    const isWhole = entries[0] === 0;
    this.root = { path: isWhole ? "" : "part " + component, component, entries, isWhole }; // the walk's states are of the whole
  }

  // The instance that a call leads into, as a short name: those of deep ones would be as long as they are deep.
  inner(path, from, call) {
    const key = path + "/" + from + ">" + call;
    if (!this.paths.has(key)) this.paths.set(key, "#" + this.paths.size);
    return this.paths.get(key);
  }

  // What leads on from a state: {kind, to, label, …}. Calls of one component that return to the same places are one box.
  arcs(state) {
    if (this.arcsOf.has(state)) return this.arcsOf.get(state);
    const m = this.machine, arcs = [], boxes = new Map(), plain = new Map();
    const alone = m.offsets[state + 1] === m.offsets[state] + 1 && m.final[state] === -1; // a sole byte is forced
    const add = (to, label, inside) => {
      const arc = plain.get(to);
      if (!arc) { plain.set(to, { kind: PLAIN, to, labels: [label], inside: [...inside] }); arcs.push(plain.get(to)); }
      else { if (!arc.labels.includes(label)) arc.labels.push(label); arc.inside.push(...inside); }
    };
    for (let e = m.offsets[state]; e < m.offsets[state + 1]; e++) {
      const set = m.byteSets[m.bytes[e]], label = rangesText(set), target = m.target[e], single = m.sizes[m.bytes[e]] === 1;
      if (m.kind[e] === PLAIN) {
        const folded = this.characters(set, target);
        if (folded) for (const to of folded.ends) add(to, "non-ASCII", folded.inside);
        else if (single) arcs.push({ kind: PLAIN, to: target, labels: [label], single, forced: alone, bytes: [set[0]], inside: [] });
        else add(target, label, []);
      } else if (m.kind[e] === CALL) {
        const spelled = single ? this.spelled(target, m.frame[e]) : null;
        if (spelled) {
          arcs.push({ kind: PLAIN, to: spelled.to, labels: [label], single, forced: true, bytes: [set[0], ...spelled.bytes], inside: [] });
          continue;
        }
        const component = m.component[target], frame = m.frame[e];
        const exits = new Set(m.exits.get(target) || []);
        const returns = [...(m.returns.get(frame) || new Map())].filter(([outcome]) => exits.has(outcome))
          .map(([outcome, to]) => [outcome, to, m.names.get(frame + ":" + outcome) || "outcome " + outcome]);
        const key = component + ":" + [...(m.returns.get(frame) || [])].map(r => r.join(">")).join();
        if (!boxes.has(key)) {
          const arc = { kind: CALL, id: key, component, entries: [], returns, forced: alone && single };
          boxes.set(key, arc);
          arcs.push(arc);
        }
        const box = boxes.get(key);
        for (const back of returns) if (!box.returns.some(([outcome]) => outcome === back[0])) box.returns.push(back);
        box.entries.push({ label, to: target, frame });
      } else arcs.push({ kind: EXIT, outcome: target, label, redo: m.kind[e] === REDO });
    }
    const joined = arcs.filter(arc => { // bytes that lead to the same state, one of them alone or not, are one edge
      const other = arc.kind === PLAIN && plain.get(arc.to);
      if (!arc.single || !other || arc.bytes.length > 1) return true;
      other.labels.push(...arc.labels);
      return false;
    });
    const twins = new Map(); // the same for bytes that are each alone
    const result = joined.filter(arc => {
      if (!arc.single || arc.bytes.length > 1) return true;
      const twin = twins.get(arc.to);
      if (!twin) { twins.set(arc.to, arc); return true; }
      twin.labels.push(...arc.labels);
      twin.single = false;
      return false;
    });
    for (const arc of result) if (arc.labels) arc.label = arc.labels.join(" ");
    this.arcsOf.set(state, result);
    return result;
  }

  // An edge that begins characters of several bytes: the states in which they end, and those inside; null for other edges.
  characters(set, target) {
    if (set[0] < 0xC2) return null;
    const m = this.machine, inside = new Set(), ends = new Set(), todo = [target];
    let many = set[0] !== set[set.length - 1];
    while (todo.length) {
      const state = todo.pop();
      if (inside.has(state) || ends.has(state)) continue;
      let continues = m.offsets[state + 1] > m.offsets[state] && m.final[state] === -1;
      for (let e = m.offsets[state]; e < m.offsets[state + 1]; e++) {
        const bytes = m.byteSets[m.bytes[e]];
        if (m.kind[e] !== PLAIN || bytes[0] < 0x80 || bytes[bytes.length - 1] > 0xBF) continues = false;
        else if (bytes[0] !== bytes[bytes.length - 1]) many = true;
      }
      if (!continues) { ends.add(state); continue; }
      inside.add(state);
      for (let e = m.offsets[state]; e < m.offsets[state + 1]; e++) todo.push(m.target[e]);
    }
    return many && inside.size && inside.size < 60 ? { ends, inside } : null;
  }

  // A call whose component can only read one text and return: that text, and where the caller goes on.
  spelled(state, frame) {
    const m = this.machine, bytes = [];
    for (let n = 0; n < 400; n++) {
      const first = m.offsets[state];
      if (m.offsets[state + 1] !== first + 1 || m.final[state] >= 0 || m.sizes[m.bytes[first]] !== 1) return null;
      const kind = m.kind[first];
      if (kind === CALL || kind === REDO) return null;
      bytes.push(m.byteSets[m.bytes[first]][0]);
      if (kind === EXIT) {
        const to = m.after(frame, m.target[first]);
        return to < 0 ? null : { to, bytes };
      }
      state = m.target[first];
    }
    return null;
  }

  // Whether a state is inside a chain: one way in, one byte on.
  isInside(state) {
    const m = this.machine;
    if (this.indegree[state] !== 1 || m.final[state] !== -1) return false;
    const arcs = this.arcs(state);
    return arcs.length === 1 && arcs[0].kind === PLAIN && Boolean(arcs[0].single);
  }

  // The edge from a state along a chain: its first label, the text forced after it, the states passed, and where it ends.
  follow(arc) {
    let to = arc.to;
    const passed = [], bytes = arc.single ? [...arc.bytes] : [];
    while (this.isInside(to) && passed.length < this.machine.nStates) {
      passed.push(to);
      const next = this.arcs(to)[0];
      bytes.push(...next.bytes);
      to = next.to;
    }
    const text = visible(Uint8Array.from(bytes));
    return { to, passed, label: arc.single ? "" : arc.label, text, forced: bytes.length > (arc.single ? 1 : 0) || Boolean(arc.forced) };
  }

  successors(state) {
    const found = [];
    for (const arc of this.arcs(state)) {
      if (arc.kind === PLAIN) found.push(this.follow(arc).to);
      else if (arc.kind === CALL) for (const [, to] of arc.returns) found.push(to);
    }
    return found;
  }

  // The states of an instance that are shown: all of a small one, else those nearest its entries, and what was asked for.
  visible(instance, entries, component) {
    const small = this.machine.components[component].states <= ALL_AT_ONCE * 6;
    const limit = small ? ALL_AT_ONCE : STEP;
    const shown = new Set(), queue = [...entries];
    for (const state of queue) {
      if (shown.size >= limit) break;
      if (shown.has(state)) continue;
      shown.add(state);
      queue.push(...this.successors(state));
    }
    for (const state of this.more.get(instance) || []) shown.add(state);
    for (const state of this.trail.get(instance) || []) shown.add(state);
    return shown;
  }

  // Show a state, and the first n of its successors.
  show(instance, state, n, shown) {
    if (!shown.has(instance)) shown.set(instance, new Set());
    for (const next of [state, ...this.successors(state).slice(0, n)]) shown.get(instance).add(next);
  }

  // Show the next n of a state's successors that are not drawn.
  showMore(instance, state, n = STEP) {
    const hidden = [...new Set(this.successors(state))].filter(next => !this.drawn.has(instance + "/" + next));
    if (!this.more.has(instance)) this.more.set(instance, new Set());
    for (const next of [state, ...hidden.slice(0, n)]) this.more.get(instance).add(next);
  }

  isOpen(box) { return this.opened.has(box) || this.followed.has(box); }

  // {nodes, edges}: nodes {id, kind: state|box|exit|entry, parent, …}; edges {from, to, label, text, thick, dotted}.
  build() {
    const nodes = new Map(), edges = [];
    this.place = new Map(); // instance/state → node or edge that stands for it
    const inside = this.root.isWhole && this.around[0];
    if (inside) this.instance(inside.path, inside.call.entries.map(e => e.to), inside.call.component, null, new Map(), nodes, edges);
    else this.instance(this.root.path, this.root.entries, this.root.component, null, this.root.isWhole ? null : new Map(), nodes, edges); // a part by itself shows where it ends
    this.drawn = nodes;
    return { nodes, edges };
  }

  instance(path, entries, component, parent, returns, nodes, edges) {
    const m = this.machine, shown = this.visible(path, entries, component);
    const id = state => path + "/" + state;
    for (const state of shown) {
      nodes.set(id(state), {
        id: id(state), kind: "state", state, number: m.states[state], parent, instance: path, final: m.final[state] >= 0, start: path === "" && state === 0,
        unexplored: m.final[state] === NOT_EXPLORED, hidden: 0,
      });
      this.place.set(id(state), { node: id(state) });
    }
    const link = (from, state, edge) => {
      if (shown.has(state)) edges.push({ ...edge, from, to: id(state) });
      else if (nodes.get(from)) nodes.get(from).hidden++;
    };
    const exits = new Set();
    for (const state of shown) {
      for (const arc of this.arcs(state)) {
        if (arc.kind === PLAIN) {
          const { to, label, text, passed, forced } = this.follow(arc);
          const index = edges.length;
          link(id(state), to, { label, text, thick: forced });
          if (edges.length > index) arc.inside.forEach(p => this.place.set(id(p), { edge: edges[index], part: 0.5 }));
          if (edges.length > index) passed.forEach((p, i) => this.place.set(id(p), { edge: edges[index], part: (i + 1) / (passed.length + 1) }));
        } else if (arc.kind === EXIT) {
          if (!returns) continue;
          const leave = path + "!" + arc.outcome;
          if (!exits.has(leave)) {
            exits.add(leave);
            const back = returns.get(arc.outcome);
            nodes.set(leave, { id: leave, kind: "exit", parent, instance: path, name: (back && back.name) || "outcome " + arc.outcome });
            if (back) edges.push({ from: leave, to: back.to, label: back.name, text: "", dotted: true });
          }
          edges.push({ from: id(state), to: leave, label: arc.label + (arc.redo ? " next" : ""), text: "", dotted: arc.redo });
        } else this.box(path, state, arc, parent, nodes, edges, link, id, shown);
      }
    }
  }

  box(path, state, arc, parent, nodes, edges, link, id, shown) {
    const m = this.machine, box = this.inner(path, state, arc.id), from = id(state);
    const inside = m.components[arc.component];
    const open = this.isOpen(box);
    nodes.set(box, { id: box, kind: "box", parent, instance: path, label: inside.label, states: inside.states, open });
    if (!open) {
      edges.push({ from, to: box, label: arc.entries.map(e => e.label).join(" "), text: "", thick: arc.forced });
      for (const [, to, name] of arc.returns) link(box, to, { label: arc.returns.length > 1 ? name : "", text: "", dotted: true });
      return;
    }
    const returns = new Map(arc.returns.filter(([, to]) => shown.has(to)).map(([outcome, to, name]) => [outcome, { to: id(to), name: arc.returns.length > 1 ? name : "" }]));
    this.instance(box, arc.entries.map(e => e.to), arc.component, box, returns, nodes, edges);
    for (const entry of arc.entries) edges.push({ from, to: box + "/" + entry.to, label: entry.label, text: "", thick: arc.forced });
  }

  // What the call with this frame is inside of and leads into: {path, call, up, depth}; spelled where the call is drawn as an edge.
  // Kept with the frame, so that a step of the walk looks at one frame, however many are open.
  inside(frame) {
    const unknown = [];
    while (frame && !frame.inside) { unknown.push(frame); frame = frame.up; }
    let around = frame ? frame.inside : { path: "", call: null, up: null, depth: 0, spelled: null };
    while (unknown.length) {
      const { from, frame: number } = unknown[unknown.length - 1];
      const call = around.spelled ? null : this.arcs(from).find(arc => arc.kind === CALL && arc.entries.some(e => e.frame === number));
      around = call ? { path: this.inner(around.path, from, call.id), call, from, up: around, depth: around.depth + 1, spelled: null }
        : around.spelled ? around : { ...around, spelled: { path: around.path, state: from } };
      unknown.pop().inside = around;
    }
    return around;
  }

  // How many boxes around a place are drawn open.
  levels(part) {
    let n = 0;
    for (let size = this.sizeOf(part); part.call && n < MAX_OPEN; n++, part = part.up) {
      size += this.sizeOf(part.up);
      if (size > MAX_AROUND) break;
    }
    return n;
  }

  // States and boxes in a part.
  sizeOf({ call }) {
    const entries = call ? call.entries.map(e => e.to) : this.root.entries, key = entries.join();
    if (!this.sizes.has(key)) {
      let size = 0;
      for (const state of this.visible(null, entries, this.machine.component[entries[0]])) size += 1 + this.arcs(state).filter(arc => arc.kind === CALL).length;
      this.sizes.set(key, size);
    }
    return this.sizes.get(key);
  }

  // Open what the walk is in, the innermost boxes of it, show its last states and what may follow.
  followTo(path) {
    this.followed.clear();
    this.trail.clear();
    this.around = [];
    path.slice(-10).forEach((at, i, last) => {
      const now = i === last.length - 1, here = this.inside(at.stack), open = this.levels(here);
      let part = here;
      for (let n = 0; n < open; n++, part = part.up) {
        if (now) this.followed.add(part.path);
        this.show(part.up.path, part.from, now ? STEP : 0, this.trail);
      }
      if (now) for (; part.call; part = part.up) this.around.push(part);
      if (!here.spelled && !this.isInside(at.state)) this.show(here.path, at.state, now ? STEP : 0, this.trail);
    });
    this.showChain(path);
  }

  // Where a configuration would be drawn, if what is around it were: {path: the instance, state}.
  drawnAt(at) {
    const here = this.inside(at.stack);
    return here.spelled || { path: here.path, state: at.state };
  }

  // If the walk is inside of a chain: show both of its ends. It may have begun long ago.
  showChain(path) {
    const now = this.drawnAt(path[path.length - 1]);
    if (!this.isInside(now.state)) return;
    let from = now;
    for (let i = path.length - 2; i >= 0 && this.isInside(from.state); i--) {
      const before = this.drawnAt(path[i]);
      if (before.path !== now.path) break; // a part has returned: from here on this is drawn as a state
      from = before;
    }
    let to = now.state;
    for (let n = 0; n < this.machine.nStates && this.isInside(to); n++) to = this.arcs(to)[0].to;
    for (const state of [from.state, to]) this.show(now.path, state, 0, this.trail);
  }

  // Where a configuration is drawn: {node} or {edge, part}; null if it is not shown.
  find(at) {
    let part = this.inside(at.stack);
    const exact = this.place.get(part.spelled ? part.spelled.path + "/" + part.spelled.state : part.path + "/" + at.state);
    if (exact) return exact;
    for (; part.call; part = part.up) if (this.drawn.has(part.path)) return { node: part.path };
    return null;
  }
}
