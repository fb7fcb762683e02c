"use strict";
// What must not come twice: items of an array, keys of an object. Their values are compared as JSON compares them.

const ANY_COMPARISON = 2; // else items (0) or keys (1) of which none may come twice
const MANY = 1e6, STEPS = 3000, DEEPEST = 3000;

// One text for all texts of a JSON value: 1, 1.0 and 10e-1; "a" and "\\u0061"; members in any order.
function canonical(text) {
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g,
    part => (part[0] === '"' ? '"s' + part.slice(1) : '"n' + canonicalNumber(part) + '"'));
  const sorted = value => value === null || typeof value !== "object" ? value
    : Array.isArray(value) ? value.map(sorted)
    : Object.keys(value).sort().map(key => [key, sorted(value[key])]).concat([["", "object"]]);
  return JSON.stringify(sorted(JSON.parse(marked)));
}

function canonicalNumber(text) {
  const [, sign, whole, fraction = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  const digits = (whole + fraction).replace(/^0+/, ""), kept = digits.replace(/0+$/, "");
  return kept ? `${sign}${kept}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - kept.length)}` : "0";
}

// The text read since a mark, both ends of lists of bytes.
function textSince(read, mark) {
  const bytes = [];
  for (let node = read; node !== mark; node = node.before) bytes.push(node.byte);
  return decode(Uint8Array.from(bytes.reverse()));
}

function isSeen(seen, value) {
  for (let node = seen; node; node = node.before) if (node.value === value) return true;
  return false;
}

// The configuration as if nothing had been compared so far.
function forgetful(at) {
  const without = frame => frame && { ...frame, seen: null, up: without(frame.up) };
  return { ...at, seen: null, stack: without(at.stack) };
}

// How many texts lead from a state to an end of its component, at most MANY.
class TextCounts {
  constructor(machine) {
    this.machine = machine;
    this.known = new Map();
  }

  from(state, depth = 0) {
    const known = this.known.get(state);
    if (known !== undefined) return known;
    if (depth > DEEPEST) return MANY;
    const m = this.machine;
    this.known.set(state, MANY); // a loop: every state can end, so there are endlessly many
    let n = 0, ends = 0;
    for (let e = m.offsets[state]; e < m.offsets[state + 1] && n < MANY; e++) {
      if (m.kind[e] === EXIT) n += m.sizes[m.bytes[e]];
      else if (m.kind[e] === REDO) ends = 1; // the byte belongs to the caller
      else if (m.kind[e] === PLAIN) n += m.sizes[m.bytes[e]] * this.from(m.target[e], depth + 1);
      else for (const next of new Set((m.returns.get(m.frame[e]) || new Map()).values()))
        n += m.sizes[m.bytes[e]] * this.from(m.target[e], depth + 1) * this.from(next, depth + 1);
    }
    const count = Math.min(MANY, n + ends);
    this.known.set(state, count);
    return count;
  }
}

// Whether the item that is open, or the next one, can still be one that was not there before, or none. It looks no further than that
// item, and not into items that have parts: there it says yes.
function mayDiffer(machine, at) {
  const isItem = stack => stack && machine.compared.has(stack.frame);
  const inside = !at.seen && isItem(at.stack) && at.stack.seen;
  if (!at.seen && !inside) return true;
  const seen = inside ? at.stack.seen : at.seen, base = inside ? at.stack.up : at.stack;
  const isOpenEnded = c => c.stack !== base && isItem(c.stack) && c.stack.up === base && machine.texts.from(c.state) > seen.n;
  if (isOpenEnded(at)) return true;
  const todo = [at];
  for (let i = 0, steps = 0; i < todo.length; i++) {
    if (steps++ > STEPS) return true;
    if (!machine.isExplored(todo[i])) return true;
    for (let byte = 0; byte < 256; byte++) {
      const next = machine.move(todo[i], byte);
      if (!next) continue;
      const isInItem = next.stack !== base && isItem(next.stack) && next.stack.up === base;
      if (next.stack === base ? next.seen !== seen : !isInItem) return true; // it was another item, or the end, or it has parts
      if (isOpenEnded(next)) return true;
      todo.push(next);
    }
  }
  return machine.mayEnd(at);
}
