"""A tokenizer and a model made on the spot, for where no real ones can be had: real code paths, meaningless words."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.runtime.models import LoadedModel

_TEXT = """
Please fill in the form: the name of the character, the kind of animal, the age in years, the height in metres.
{"name": "Mara Lindqvist", "occupation": "librarian", "can swim": true, "home": {"town": "Northpoint", "since": 1987}}
{"name": "Oren Tully", "occupation": "gardener", "can swim": false, "home": {"town": "Saltmarsh", "since": 2003}}
The favourite colour of the gardener is green, and the librarian likes a silver or golden one; her companion is a fox.
A person who reads the answer wants a sentence, not a number, about what the character would say on such a day.
"""

_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)


def toy_model(seed: int = 0, n_tokens: int = 400, n_layers: int = 4, hidden_size: int = 192) -> LoadedModel:
    """A byte-level BPE tokenizer trained on a few lines, and a Llama of that vocabulary with random weights.

    The same arguments give the same tokenizer and weights. n_tokens: 257 (all bytes and an EOS token) or more.

    >>> toy = toy_model()
    >>> toy.vocab.size, toy.vocab.token(toy.tokenizer.encode("occupation")[-1])
    (400, b'occupation')
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=n_tokens,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=["<|end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([_TEXT], trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>", chat_template=_CHAT_TEMPLATE
    )
    eos = wrapped.eos_token_id
    config = LlamaConfig(
        vocab_size=len(wrapped),
        hidden_size=hidden_size,
        intermediate_size=2 * hidden_size,
        num_hidden_layers=n_layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.3,  # the usual 0.02 gives nearly equal logits: ties, which rounding would break differently
        bos_token_id=eos,
        eos_token_id=eos,
        pad_token_id=eos,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    return LoadedModel(model.eval(), wrapped, Vocabulary.from_huggingface(wrapped, vocab_size=config.vocab_size))
