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

  piece(text) {
    if (this.whole && this.whole.has(text)) return [this.whole.get(text)];
    const ids = Array.from(this.encoder.encode(text), byte => this.single.get(byte));
    for (;;) {
      let best = null, where = -1;
      for (let i = 0; i + 1 < ids.length; i++) {
        const known = this.ranks.get(ids[i] * 2097152 + ids[i + 1]);
        if (known && (!best || known[0] < best[0])) { best = known; where = i; }
      }
      if (!best) return ids;
      ids.splice(where, 2, best[1]);
    }
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
