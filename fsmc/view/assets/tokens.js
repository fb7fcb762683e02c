"use strict";
// The vocabulary: which tokens may come at a configuration, and how text is cut into tokens.

class Tokens {
  constructor(packed, merges) {
    this.size = packed.size;
    this.ids = unpackInts(packed.ids);
    this.eos = packed.eos;
    const lengths = unpackInts(packed.lengths), bytes = unpackBytes(packed.bytes);
    this.tokens = new Array(lengths.length); // in the order of their bytes
    this.shared = new Int32Array(lengths.length); // bytes shared with the one before
    this.placeOf = new Map();
    this.longest = 1;
    for (let i = 0, at = 0; i < lengths.length; at += lengths[i++]) {
      const token = this.tokens[i] = bytes.subarray(at, at + lengths[i]);
      const before = i ? this.tokens[i - 1] : token;
      let n = 0;
      if (i) while (n < token.length && n < before.length && token[n] === before[n]) n++;
      this.shared[i] = n;
      this.placeOf.set(this.ids[i], i);
      this.longest = Math.max(this.longest, token.length);
    }
    this.byText = null;
    this.merges = merges ? new Merges(merges, this) : null;
  }

  bytesOf(id) { return this.tokens[this.placeOf.get(id)] || new Uint8Array(0); }

  // The places (in the order of bytes) of the tokens that may come: one pass, prefixes that die are passed over.
  mask(machine, at) {
    const allowed = [], path = [at];
    let depth = 0, dead = -1; // path[0..depth] are configurations; dead: the length of a prefix of the last token that died
    for (let i = 0; i < this.tokens.length; i++) {
      const token = this.tokens[i], shared = this.shared[i];
      if (dead >= 0 && shared >= dead) continue;
      dead = -1;
      depth = Math.min(depth, shared);
      while (depth < token.length) {
        const next = machine.step(path[depth], token[depth]);
        if (!next) { dead = depth + 1; break; }
        path[++depth] = next;
      }
      if (dead < 0) allowed.push(i);
    }
    return allowed;
  }

  // Text into ids: as the tokenizer does it where the page knows how, else the longest token first.
  encode(bytes) {
    const text = decode(bytes);
    if (this.merges && text !== null) {
      const ids = this.merges.encode(text);
      let n = 0;
      const good = ids.every(id => this.bytesOf(id).every(byte => byte === bytes[n++]));
      if (good && n === bytes.length) return ids;
    }
    return this.longestFirst(bytes);
  }

  longestFirst(bytes) {
    if (!this.byText) {
      this.byText = new Map();
      this.tokens.forEach((token, i) => {
        const key = token.join();
        if (!this.byText.has(key) || this.byText.get(key) > this.ids[i]) this.byText.set(key, this.ids[i]);
      });
    }
    const ids = [];
    for (let at = 0; at < bytes.length;) {
      let n = Math.min(this.longest, bytes.length - at);
      while (n > 0 && !this.byText.has(bytes.subarray(at, at + n).join())) n--;
      if (!n) return null;
      ids.push(this.byText.get(bytes.subarray(at, at + n).join()));
      at += n;
    }
    return ids;
  }
}

// Byte-level BPE: patterns cut the text into pieces, merges join the bytes of a piece, the earliest merge first.
class Merges {
  constructor(packed, tokens) {
    const triples = unpackInts(packed.merges);
    this.ranks = new Map();
    for (let i = 0; i < triples.length; i += 3) {
      const pair = triples[i] * 2097152 + triples[i + 1];
      if (!this.ranks.has(pair)) this.ranks.set(pair, [i, triples[i + 2]]);
    }
    this.steps = packed.steps.map(step => new RegExp(step.pattern, "gu"));
    this.single = new Map();
    this.whole = packed.whole_pieces ? new Map() : null;
    tokens.tokens.forEach((token, i) => {
      if (token.length === 1) this.single.set(token[0], tokens.ids[i]);
      if (this.whole) this.whole.set(decode(token), tokens.ids[i]);
    });
    this.encoder = new TextEncoder();
  }

  encode(text) {
    let pieces = [text];
    for (const pattern of this.steps) pieces = pieces.flatMap(piece => isolate(piece, pattern));
    return pieces.flatMap(piece => this.piece(piece));
  }

  // The ids are a linked list, the merges that are possible a heap, so that text without a break costs no more for each letter.
  piece(text) {
    if (this.whole && this.whole.has(text)) return [this.whole.get(text)];
    const ids = Array.from(this.encoder.encode(text), byte => this.single.get(byte));
    const next = Int32Array.from(ids, (_, i) => i + 1), before = Int32Array.from(ids, (_, i) => i - 1), heap = new Heap();
    const offer = i => {
      const known = i >= 0 && next[i] < ids.length && this.ranks.get(ids[i] * 2097152 + ids[next[i]]);
      if (known) heap.push([known[0], i, ids[i], ids[next[i]], known[1]]);
    };
    for (let i = 0; i < ids.length; i++) offer(i);
    while (heap.size) {
      const [, i, left, right, merged] = heap.pop(), second = next[i];
      if (ids[i] !== left || second >= ids.length || ids[second] !== right) continue; // one of the two is part of another by now
      ids[i] = merged;
      ids[second] = -1;
      next[i] = next[second];
      if (next[i] < ids.length) before[next[i]] = i;
      offer(before[i]);
      offer(i);
    }
    return ids.filter(id => id !== -1);
  }
}

// Of arrays that begin with a rank and a place: the least comes first.
class Heap {
  constructor() { this.items = []; }
  get size() { return this.items.length; }
  order(a, b) { return this.items[a][0] - this.items[b][0] || this.items[a][1] - this.items[b][1]; }
  swap(a, b) { [this.items[a], this.items[b]] = [this.items[b], this.items[a]]; }

  push(item) {
    let i = this.items.push(item) - 1;
    for (let up; i && this.order(i, (up = (i - 1) >> 1)) < 0; i = up) this.swap(i, up);
  }

  pop() {
    const least = this.items[0], last = this.items.pop();
    if (this.items.length) this.items[0] = last;
    for (let i = 0, child; (child = 2 * i + 1) < this.items.length; i = child) {
      if (child + 1 < this.items.length && this.order(child + 1, child) < 0) child++;
      if (this.order(i, child) <= 0) break;
      this.swap(i, child);
    }
    return least;
  }
}

// What a pattern finds, and what stands between, each a piece.
function isolate(text, pattern) {
  const pieces = [];
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    if (!match[0].length) continue;
    if (match.index > at) pieces.push(text.slice(at, match.index));
    pieces.push(match[0]);
    at = match.index + match[0].length;
  }
  if (at < text.length) pieces.push(text.slice(at));
  return pieces;
}
