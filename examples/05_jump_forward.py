"""Lesson 5: do not ask the model what is already decided.

Adds jump-forward to lesson 4. Where the text may not end and only one byte can follow, the model has no say: that text
is *forced*, and can be appended without a forward pass. Chains of forced states are compressed into jumps (the
"compressed finite-state machine" of SGLang, 2024). A form with fixed keys is mostly forced text. What remains is to keep
the tokens the model sees natural: the text is tokenized afresh around each jump.
"""

# %% A small form. Everything but the values is forced.
import fsmc

pattern = r'\{"name": "[a-z]{1,8}", "size": "(small|medium|large)", "ok": (true|false)\}'
letters = [bytes([byte]) for byte in range(32, 127)]
words = [b'{"name": "', b'", "', b"size", b'": "', b"small", b"medium", b"large", b"true", b"false", b"ann"]
vocabulary = fsmc.Vocabulary.from_tokens([*letters, *words, b""], eos_token_ids=[len(letters) + len(words)])
grammar = fsmc.GrammarCompiler(vocabulary, cache_dir=None).compile_regex(pattern)

# %% The map says for every state how many bytes are forced from it.
jump_map = fsmc.JumpForwardMap(grammar)
forced = int((jump_map.length[1:] > 0).sum())
print(f"{forced} of {grammar.dfa.n_states - 1} states are forced")
text, state = jump_map.jump(grammar.dfa.start)
print(f"from the start: {text!r}")

# %% A dialogue between machine and "model": the machine writes what is forced, the model (here: a list of answers) only
# what is free. One step of the model may be a whole word or a single letter.
matcher = fsmc.GrammarMatcher(grammar)
answers = iter([b"ann", b'"', b"m", b"t"])
written, steps = "", 0
while True:
    forced_text = matcher.find_jump_forward_string()
    matcher.accept_bytes(forced_text.encode())
    written += forced_text
    if matcher.is_completed():
        break
    answer = next(answers)
    assert matcher.accept_bytes(answer)
    written += answer.decode()
    steps += 1
    print(f"forced {forced_text!r:22} model {answer.decode()!r}")
print(f"forced {forced_text!r}\n{written}\n{steps} steps of the model for {len(written)} characters")

# %% Note "m" and "t": one letter decides between small, medium and large, so the rest of the word is forced. After the
# name it is the closing quote that is free (the name could go on); from there on everything is forced again.

# %% A jump never ends inside a character, so the text of a jump is always text. These two words share two characters and
# the first byte of their third: the jump stops before it.
two = fsmc.GrammarCompiler(vocabulary, cache_dir=None).compile_regex("(ñoé|ñoè)")
print("\nforced before é or è:", repr(fsmc.GrammarMatcher(two).find_jump_forward_string()))

# %% And it never runs through a place where the text could end, or into a loop.
loop = fsmc.GrammarCompiler(vocabulary, cache_dir=None).compile_regex("ab(cb)*")
print("forced in ab(cb)*:", repr(fsmc.GrammarMatcher(loop).find_jump_forward_string()))


# %% Tokens. Appending forced text with the tokens that happen to fit gives a model ids it has never seen in that order:
# after '{"name": "ann' comes '", "size": "', but a model trained on text would have one token for '", "'. So the text is
# tokenized again and the longest common prefix of old and new ids keeps its place in the KV cache. Greedy longest match
# stands in for a real tokenizer here.
def tokenize(data: bytes) -> list[int]:
    ids = []
    while data:
        best = max(
            (i for i, t in enumerate(vocabulary.tokens) if t and data.startswith(t)),
            key=lambda i: len(vocabulary.token(i)),
        )
        ids.append(best)
        data = data[len(vocabulary.token(best)) :]
    return ids


old = tokenize(b'{"name": "ann"')
new = tokenize(b'{"name": "ann", "size": "')
kept = next((i for i, (x, y) in enumerate(zip(old, new, strict=False)) if x != y), min(len(old), len(new)))
print("\nold tokens:", [vocabulary.token(i).decode() for i in old])
print("new tokens:", [vocabulary.token(i).decode() for i in new])
print(f"{kept} of {len(old)} old tokens keep their KV cache; {len(new) - kept} go through the model in one pass")
