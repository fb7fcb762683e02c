"use strict";
// The machine, run as fsmc runs it: a configuration is a state and the frames of the calls that are open.

const PLAIN = 0, CALL = 1, EXIT = 2, REDO = 3, NOT_EXPLORED = -2;

function unpackBytes(text) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

function unpackInts(text) {
  return new Int32Array(unpackBytes(text).buffer);
}

class Machine {
  constructor(packed) {
    for (const name of ["states", "offsets", "kind", "target", "frame", "bytes", "final", "component"])
      this[name] = unpackInts(packed[name]);
    this.byteSets = packed.byteSets;
    this.components = packed.components;
    this.isWhole = packed.isWhole;
    this.nStates = this.states.length;
    this.returns = new Map(); // frame → Map(outcome → state)
    const returns = unpackInts(packed.returns);
    for (let i = 0; i < returns.length; i += 3) {
      if (!this.returns.has(returns[i])) this.returns.set(returns[i], new Map());
      this.returns.get(returns[i]).set(returns[i + 1], returns[i + 2]);
    }
    this.compared = new Map(packed.compared); // frame of a call whose text is compared → what is compared
    this.texts = new TextCounts(this);
    this.names = new Map(packed.returnNames.map(([frame, outcome, name]) => [frame + ":" + outcome, name]));
    this.exits = new Map(); // entry → the outcomes with which it can end
    for (const component of this.components) component.entries.forEach((entry, i) => this.exits.set(entry, component.exits[i]));
    this.rows = new Array(this.nStates); // byte → edge + 1, made when a state is first met
    this.sizes = this.byteSets.map(set => {
      let n = 0;
      for (let i = 0; i < set.length; i += 2) n += set[i + 1] - set[i] + 1;
      return n;
    });
    this.start = { state: 0, stack: null, seen: null, read: null };
  }

  row(state) {
    let row = this.rows[state];
    if (!row) {
      row = this.rows[state] = new Int32Array(256);
      for (let e = this.offsets[state]; e < this.offsets[state + 1]; e++) {
        const set = this.byteSets[this.bytes[e]];
        for (let i = 0; i < set.length; i += 2) row.fill(e + 1, set[i], set[i + 1] + 1);
      }
    }
    return row;
  }

  after(frame, outcome) {
    const known = this.returns.get(frame);
    const state = known ? known.get(outcome) : undefined;
    return state === undefined ? -1 : state;
  }

  // The configuration after one more byte; null where it is not allowed. A stack is {frame, from, up}: from is the calling state.
  step(at, byte) {
    const next = this.move(at, byte);
    return next && this.compared.size && !mayDiffer(this, next) ? null : next;
  }

  // The same, without a look at whether what is compared can still differ. seen: what was compared so far in this object or array, the
  // last first; read: the bytes read, the last first, where anything is compared.
  move(at, byte) {
    let { state, stack, seen, read } = at;
    const after = this.compared.size ? { byte, before: read } : null;
    for (;;) {
      const edge = this.row(state)[byte] - 1;
      if (edge < 0) return null;
      const target = this.target[edge];
      switch (this.kind[edge]) {
        case PLAIN: return { state: target, stack, seen, read: after };
        case CALL: return { state: target, stack: { frame: this.frame[edge], from: state, up: stack, seen, mark: read }, seen: null, read: after };
      }
      if (!stack) return null;
      const next = this.after(stack.frame, target), ends = this.kind[edge] === EXIT;
      if (next < 0) return null;
      seen = stack.seen;
      if (this.compared.has(stack.frame)) {
        const value = canonical(textSince(ends ? after : read, stack.mark));
        if (isSeen(seen, value)) return null;
        seen = { value, before: seen, n: seen ? seen.n + 1 : 1, kind: this.compared.get(stack.frame) };
      }
      stack = stack.up;
      if (ends) return { state: next, stack, seen, read: after };
      state = next;
    }
  }

  // Whether a byte is refused only because an item or a key would come twice.
  isTwin(at, byte) {
    return this.compared.size > 0 && !this.step(at, byte) && this.move(forgetful(at), byte) !== null;
  }

  // Whether there is an array open of which it matters otherwise whether items are equal.
  comparesOtherwise(at) {
    const isOne = seen => seen !== null && seen.kind === ANY_COMPARISON;
    for (let frame = at.stack; frame; frame = frame.up) if (isOne(frame.seen)) return true;
    return isOne(at.seen);
  }

  mayEnd(at) {
    let { state, stack } = at, outcome = this.final[state];
    while (stack && outcome >= 0) {
      state = this.after(stack.frame, outcome);
      stack = stack.up;
      outcome = state < 0 ? -1 : this.final[state];
    }
    return outcome >= 0;
  }

  isExplored(at) { return this.final[at.state] !== NOT_EXPLORED; }

  allowedBytes(at) {
    const live = [];
    for (let byte = 0; byte < 256; byte++) if (this.step(at, byte)) live.push(byte);
    return live;
  }

  // The bytes that are forced from here, cut to whole characters.
  forced(at, most = 4096) {
    const bytes = [];
    while (bytes.length < most && !this.mayEnd(at)) {
      const live = this.allowedBytes(at);
      if (live.length !== 1) break;
      bytes.push(live[0]);
      at = this.step(at, live[0]);
    }
    let end = bytes.length; // a jump does not end inside a character
    if (end) {
      let lead = end - 1;
      while (lead > 0 && (bytes[lead] & 0xC0) === 0x80) lead--;
      const b = bytes[lead], length = b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
      if (lead + length > end) end = lead;
    }
    return Uint8Array.from(bytes.slice(0, end));
  }

  // All configurations along a text: path[i] is the one before byte i. Shorter than the text where a byte is not allowed. known: another
  // walk, of which what is the same is taken.
  walk(bytes, known = { bytes: [], path: [this.start] }) {
    let same = 0;
    while (same < bytes.length && same + 1 < known.path.length && bytes[same] === known.bytes[same]) same++;
    const path = known.path.slice(0, same + 1);
    for (let i = same; i < bytes.length; i++) {
      const next = this.step(path[i], bytes[i]);
      if (!next) break;
      path.push(next);
    }
    return path;
  }
}

// ── bytes as text ──────────────────────────────────────────────────────────────────────────────────────────────────────

const ESCAPES = { 9: "\\t", 10: "\\n", 13: "\\r", 32: "␣" };

function byteName(byte) {
  if (ESCAPES[byte]) return ESCAPES[byte];
  return byte > 32 && byte < 127 ? String.fromCharCode(byte) : byte.toString(16).toUpperCase().padStart(2, "0");
}

function rangesText(set) {
  const words = [];
  for (let i = 0; i < set.length; i += 2) {
    const low = byteName(set[i]), high = byteName(set[i + 1]);
    words.push(set[i] === set[i + 1] ? low : set[i] + 1 === set[i + 1] ? low + " " + high : low + "–" + high);
  }
  return words.join(" ");
}

function toRanges(sorted) {
  const ranges = [];
  for (const byte of sorted) {
    if (ranges.length && ranges[ranges.length - 1] === byte - 1) ranges[ranges.length - 1] = byte;
    else ranges.push(byte, byte);
  }
  return ranges;
}

const strictDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

// Bytes as text; null where they are not whole characters.
function decode(bytes) {
  try { return strictDecoder.decode(bytes); } catch { return null; }
}

// Bytes for reading: white space visible, what is no text as \xNN.
function visible(bytes) {
  const text = decode(bytes);
  if (text === null) return Array.from(bytes, b => (b > 32 && b < 127 ? String.fromCharCode(b) : "\\x" + b.toString(16).padStart(2, "0"))).join("");
  return text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/\r/g, "\\r");
}
