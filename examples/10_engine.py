# %% [markdown]
"""# Lesson 10: the engine, many requests in packed passes, and what is kept between them.

Adds to lessons 5, 6 and 8 the loop around the masks. A step admits what is ready, appends what is forced, runs one forward
pass over the new tokens of all requests while a thread fills their masks, and takes one token for each, or several where a
draft holds. The model here has random weights: real code paths, meaningless words.
"""

# %% [markdown]
# A model, and grammars that compile while others already run

# %%
import fsmc
from fsmc.runtime.toy_model import toy_model

model, tokenizer, vocab = toy_model(n_layers=2, hidden_size=64)
manager = fsmc.GrammarManager(fsmc.GrammarCompiler(vocab, whitespace="json", cache_dir=None))
PERSON = {
    "type": "object",
    "properties": {"occupation": {"enum": ["gardener", "librarian"]}, "can swim": {"type": "boolean"}},
    "required": ["occupation", "can swim"],
    "additionalProperties": False,
}
PROMPT = "Please fill in the form: the occupation of the character, and whether she can swim. "


def requests(**options):
    return [
        fsmc.Request(PROMPT, manager.request("json_schema", PERSON), **options),
        fsmc.Request(PROMPT, manager.request("regex", "the (silver|golden) fox"), **options),
        fsmc.Request(PROMPT, manager.request("regex", "no closing ("), **options),
        fsmc.Request(PROMPT, max_new_tokens=4, **options),  # without a constraint
    ]


# %% [markdown]
# Four requests at once: one of them is wrong, which is its own affair

# %%
steps = []
engine = fsmc.Engine(model, tokenizer, vocab, on_step=steps.append)
for response in engine.run(requests()):
    print(f"{response.finish_reason:6} {response.text[:48]!r} {str(response.error or '').partition(',')[0]}")

# %% [markdown]
# Packed, not padded: a pass has as many tokens as there are new ones. A request joins when its grammar is compiled, so that how many rows
# a pass has depends on how fast that is.

# %%
print([f"{step.n_rows} rows, {step.n_tokens} tokens" for step in steps[:5]])

# %% [markdown]
# The prompt is the same for all, so it is read once; so is what others have read before

# %%
first, *others = engine.run(requests())
print(f"prompt of {first.prompt_tokens} tokens; of it and of the text {first.shared_tokens} tokens were known before")
print(f"computed: {first.computed_tokens} tokens; those of the others: {[other.computed_tokens for other in others]}")

# %% [markdown]
# Jumps: the same constraint with and without. `exact` writes what is written without jumps, token for token, in fewer passes.
# `canonical` cuts the text afresh at the seam after each jump, as the tokenizer would (lesson 6). So the model reads other tokens
# for the same text, and may go on otherwise: here to the other answer, which the constraint allows as well. The last tokens show
# the seam: without jumps the space after the colon is a token of its own, after a canonical jump it begins the next token.

# %%
for jump in ("off", "exact", "canonical"):
    (response,) = engine.run(requests(jump=jump)[:1])
    print(f"{jump:9} {len(response.token_ids):3} tokens in {response.forward_passes:2} passes: {response.text}")
    print(" " * 10, "the last of them:", [vocab.token(token).decode() for token in response.token_ids[-7:]])

# %% [markdown]
# Sampling: a seed means the same text in any company

# %%
params = fsmc.SamplingParams(temperature=1.0, top_p=0.9, seed=7)
alone = engine.run([fsmc.Request(PROMPT, manager.request("regex", "[a-z]{3,9}"), params)])[0]
together = engine.run([*requests(), fsmc.Request(PROMPT, manager.request("regex", "[a-z]{3,9}"), params)])[-1]
print(alone.text, together.text == alone.text)

# %% [markdown]
# Never cut off: the text is complete in as many tokens as there may be, down to the fewest that any text needs

# %%
for budget in (30, 12):
    grammar = manager.request("regex", "([a-z]+, )*and [a-z]+")
    (response,) = engine.run([fsmc.Request(PROMPT, grammar, params, max_new_tokens=budget, never_cut_off=True)])
    print(f"at most {budget}: {len(response.token_ids)} tokens, {response.finish_reason}: {response.text!r}")

# %% [markdown]
# In a server: a thread steps, others submit, stream and abort

# %%
with fsmc.Engine(model, tokenizer, vocab).start() as engine:
    ticket = engine.submit(fsmc.Request(PROMPT, max_new_tokens=3000))
    ticket.abort()
    print(ticket.result(timeout=60).finish_reason)
manager.close()

# %% [markdown]
# ## Exercises (answers: `tests/test_exercises.py`)
#
# Exercise 10.1: Does a request's text depend on the others in its batch? Run one alone, and with three others, greedily.
#
# Exercise 10.2: How many passes does a text take that is forced from the first to the last character?
