"""From a JSON Schema to a recursive state machine over bytes.

In reading order; each step leans on those before it.

1. The schema as given. `source` reads text and Python types; `checks` says what each keyword's value has to look like;
   `resources` and `references` say what a reference names; `checker` walks through all of it, and `document` puts it together:
   subschemas as numbered nodes.
2. Formulas. `formula` has and, or, not and "exactly one" as integers; `atoms` the simple conditions; `conditions` those of
   objects and arrays, simplified; `values` how JSON values are compared.
3. Keywords become formulas. `keywords` is the table, with the rules in `keyword_general`, `keyword_scalars`,
   `keyword_objects`, `keyword_arrays` and `unevaluated`.
4. Scalars become DFAs whose end tells what holds of the text: `outcome_dfa`; `word_machine` makes those of finite lists,
   `joint` runs many at once, `bits` judges a list's texts all together. Strings: `string_machines` (one condition each),
   `string_doubts` and `strings` (all at once), `json_text` (escapes), `counted` (bounded length). Numbers:
   `number_machines`, `numbers`. Formats: `formats` is the list, `format_doubts` says what is left open, `format_machine` and `format_cache`
   make and keep the machines that `format_dates`, `format_hosts`, `format_idn`, `format_regex` and `format_uris` describe.
5. Is there any such value? Of most subschemas that is `obvious`. `cubes` enumerates the ways in which a formula can be true; `string_emptiness`, `numbers` and
   `emptiness` decide; `contradiction` says why not, `early` refuses at once what no text could get through.
6. Objects and arrays. `residual` is the heart: what is left of a formula after some members or items; `objects` and
   `arrays` fill it in, `object_facts`, `exclusive`, `domains` and `cofactors` keep it small; `placing` finds out whether wanted items have room; `key_space` and `key_trie` sort and
   read the keys, `member_order` orders them.
7. The machine. `outcomes` is what a component tells its caller; `scalar_blocks` adds what is built whole, `resident` keeps
   what every machine begins with; `positions` is JSON's grammar, with a residual in every place (`object_state`), `plain_objects` the same where no member depends on another; `machine` builds its rows when a text first gets there.
8. What is done with it: `recipe` stores and loads; `walk`, `ending` and `sampling` write instances.
"""
