"""Applying packed masks on the CPU, against numpy's own indexing."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fsmc
from fsmc.runtime.bitmask import (
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    pack_token_bitmask,
    unpack_token_bitmask,
)

FLOATS = [np.float16, np.float32, np.float64]
WIDTHS = [1, 31, 32, 33, 64, 100, 1000]


def random_case(rng, n_rows, width, dtype=np.float32):
    """Logits and bits in which words of all ones, all zeros and both occur."""
    density = rng.choice([0.0, 0.03, 0.5, 0.97, 1.0], size=(n_rows, -(-width // 32)))
    allowed = rng.random((n_rows, width)) < np.repeat(density, 32, axis=1)[:, :width]
    return rng.normal(size=(n_rows, width)).astype(dtype), allowed


def masked(logits, allowed):
    return np.where(allowed, logits, -np.inf).astype(logits.dtype)


def test_allocate_allows_everything():
    mask = allocate_token_bitmask(3, 65)
    assert mask.dtype == np.int32 and mask.shape == (3, 3)
    assert unpack_token_bitmask(mask, 65).all()
    assert allocate_token_bitmask(0, 0).shape == (0, 0)
    with pytest.raises(ValueError, match="negative"):
        allocate_token_bitmask(-1, 10)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=100))
def test_bit_t_of_word_t_over_32(allowed):
    words = pack_token_bitmask(allowed)
    assert words.shape == (-(-len(allowed) // 32),)
    expected = sum(1 << token for token, bit in enumerate(allowed) if bit)
    assert sum((int(word) & 0xFFFFFFFF) << (32 * i) for i, word in enumerate(words)) == expected
    assert unpack_token_bitmask(words, len(allowed)).tolist() == allowed


def test_unpack_refuses_too_few_words():
    with pytest.raises(ValueError, match="32 tokens, not 33"):
        unpack_token_bitmask(np.zeros((1, 1), np.int32), 33)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_numpy(dtype, width):
    logits, allowed = random_case(np.random.default_rng(width), 7, width, dtype)
    expected = masked(logits, allowed)
    assert apply_token_bitmask_inplace(logits, pack_token_bitmask(allowed)) is None
    np.testing.assert_array_equal(logits, expected)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_torch(name, width):
    torch = pytest.importorskip("torch")
    logits, allowed = random_case(np.random.default_rng(width), 5, width)
    tensor = torch.from_numpy(logits).to(getattr(torch, name))
    expected = tensor.masked_fill(torch.from_numpy(~allowed), float("-inf"))
    address = tensor.data_ptr()
    apply_token_bitmask_inplace(tensor, torch.from_numpy(pack_token_bitmask(allowed)))
    assert tensor.data_ptr() == address
    assert torch.equal(tensor, expected)


def test_special_values_survive_where_allowed():
    logits = np.array([np.nan, np.inf, -np.inf, -0.0, np.nan, 5.0], np.float32)
    apply_token_bitmask_inplace(logits, pack_token_bitmask([1, 1, 1, 1, 0, 0]))
    np.testing.assert_array_equal(logits, np.array([np.nan, np.inf, -np.inf, -0.0, -np.inf, -np.inf], np.float32))
    assert np.signbit(logits[3])


@pytest.mark.parametrize("logits_width, mask_width", [(70, 40), (70, 33), (40, 70), (64, 32), (5, 320), (33, 0)])
def test_columns_past_the_mask_are_forbidden_and_words_past_the_logits_ignored(logits_width, mask_width):
    logits, _ = random_case(np.random.default_rng(0), 3, logits_width)
    _, allowed = random_case(np.random.default_rng(1), 3, mask_width)
    bits = np.zeros((3, logits_width), bool)
    shared = min(logits_width, mask_width)
    bits[:, :shared] = allowed[:, :shared]
    expected = masked(logits, bits)
    apply_token_bitmask_inplace(logits, pack_token_bitmask(allowed))
    np.testing.assert_array_equal(logits, expected)


def test_one_dimension_is_one_row():
    logits, allowed = random_case(np.random.default_rng(2), 1, 50)
    expected = masked(logits, allowed)
    flat = logits[0].copy()
    apply_token_bitmask_inplace(flat, pack_token_bitmask(allowed[0]))
    np.testing.assert_array_equal(flat, expected[0])
    apply_token_bitmask_inplace(logits[0], pack_token_bitmask(allowed))  # a row of the one, a batch of the other
    np.testing.assert_array_equal(logits, expected)


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda rows: np.array(rows, np.int32), "torch"])
def test_indices_pair_equal_rows_of_logits_and_mask(kind):
    if kind == "torch":
        kind = pytest.importorskip("torch").tensor
    rng = np.random.default_rng(3)
    logits, _ = random_case(rng, 6, 70)
    _, allowed = random_case(rng, 4, 70)
    expected = logits.copy()
    for row in (3, 0):
        expected[row] = masked(logits[row], allowed[row])
    apply_token_bitmask_inplace(logits, pack_token_bitmask(allowed), indices=kind([3, 0, 3]))
    np.testing.assert_array_equal(logits, expected)


def test_no_indices_touch_nothing():
    logits, before = np.ones((2, 40), np.float32), np.ones((2, 40), np.float32)
    apply_token_bitmask_inplace(logits, np.zeros((5, 2), np.int32), indices=[])
    np.testing.assert_array_equal(logits, before)
    apply_token_bitmask_inplace(np.ones((0, 40), np.float32), np.zeros((0, 2), np.int32))


def test_rows_of_a_wider_array():
    rng = np.random.default_rng(4)
    wide, wide_mask = rng.normal(size=(12, 300)).astype(np.float16), rng.integers(-9, 9, (8, 9), np.int32)
    for rows, columns in [(slice(0, 8), slice(0, 200)), (slice(1, 12, 3), slice(100, 300)), (slice(4, 5), slice(7, 9))]:
        logits, whole = wide[rows, columns], wide.copy()
        mask = wide_mask[: logits.shape[0], :7]
        expected = masked(logits, unpack_token_bitmask(mask, 224)[:, : logits.shape[1]])
        apply_token_bitmask_inplace(logits, mask)
        np.testing.assert_array_equal(logits, expected)
        whole[rows, columns] = expected
        np.testing.assert_array_equal(wide, whole)  # nothing around the slice was touched


def test_last_position_of_model_output():
    torch = pytest.importorskip("torch")
    logits = torch.randn(2, 5, 90, dtype=torch.bfloat16)
    before = logits.clone()
    allowed = torch.rand(2, 90) < 0.5
    apply_token_bitmask_inplace(logits[:, -1, :], torch.from_numpy(pack_token_bitmask(allowed.numpy())))
    assert torch.equal(logits[:, :-1], before[:, :-1])
    assert torch.equal(logits[:, -1], before[:, -1].masked_fill(~allowed, float("-inf")))


def test_read_only_mask_and_tensor_that_requires_grad():
    mask = pack_token_bitmask(np.eye(2, 40, dtype=bool))
    mask.flags.writeable = False
    logits = np.zeros((2, 40), np.float32)
    apply_token_bitmask_inplace(logits, mask)
    assert (logits == 0).sum() == 2
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(2, 40, requires_grad=True)
    apply_token_bitmask_inplace(tensor, mask)
    assert int((tensor == 0).sum()) == 2


ONE_ROW = np.zeros((1, 2), np.int32)


@pytest.mark.parametrize(
    "logits, mask, indices, error, message",
    [
        (np.zeros((1, 40), np.int32), ONE_ROW, None, TypeError, "float16, float32 or float64"),
        (np.zeros((1, 40), ">f4"), ONE_ROW, None, TypeError, "native byte order"),
        ([[0.0]], ONE_ROW, None, TypeError, "numpy array or a torch tensor, not list"),
        (np.zeros((1, 40), np.float32), [[1, 2]], None, TypeError, "mask must be a numpy array"),
        (np.zeros((1, 40), np.float32), ONE_ROW.astype(np.int64), None, TypeError, "must be int32, not int64"),
        (np.zeros((2, 40), np.float32), ONE_ROW, None, ValueError, "2 rows of logits and 1 of the mask"),
        (np.zeros((1, 1, 40), np.float32), ONE_ROW, None, ValueError, "one or two dimensions"),
        (np.zeros((1, 40), np.float32), ONE_ROW[None], None, ValueError, "one or two dimensions"),
        (np.zeros((40, 2), np.float32).T, np.zeros((2, 2), np.int32), None, ValueError, "contiguous copy"),
        (np.zeros((2, 40), np.float32)[::-1], np.zeros((2, 2), np.int32), None, ValueError, "contiguous copy"),
        (np.zeros((2, 80), np.float32)[:, ::2], np.zeros((2, 2), np.int32), None, ValueError, "contiguous copy"),
        (np.zeros((2, 40), np.float32), ONE_ROW, [0, 1], IndexError, "index 1 is out of range"),
        (np.zeros((1, 40), np.float32), np.zeros((3, 2), np.int32), [2, 0], IndexError, "index 2 is out of range"),
        (np.zeros((1, 40), np.float32), ONE_ROW, [-1], IndexError, "index -1 is out of range"),
        (np.zeros((1, 40), np.float32), ONE_ROW, [0.0], TypeError, "row numbers"),
        (np.zeros((1, 40), np.float32), ONE_ROW, [True], TypeError, "row numbers"),
        (np.zeros((1, 40), np.float32), ONE_ROW, [[0]], TypeError, "row numbers"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(logits, mask, indices, error, message):
    with pytest.raises(error, match=message):
        apply_token_bitmask_inplace(logits, mask, indices)
    assert not np.asarray(logits).any()


def test_read_only_logits():
    logits = np.zeros((1, 40), np.float32)
    logits.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        apply_token_bitmask_inplace(logits, ONE_ROW)


def test_torch_kinds_that_are_not_served():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="bfloat16"):
        apply_token_bitmask_inplace(torch.zeros(1, 40, dtype=torch.int64), ONE_ROW)
    with pytest.raises(TypeError, match="only the CPU and CUDA"):
        apply_token_bitmask_inplace(torch.zeros(1, 40, device="meta"), ONE_ROW)
    with pytest.raises(TypeError, match=r"mask\.cpu"):
        apply_token_bitmask_inplace(torch.zeros(1, 40), torch.zeros(1, 2, dtype=torch.int32, device="meta"))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_shape(data):
    n_rows = data.draw(st.integers(1, 4))
    width, mask_width = data.draw(st.integers(1, 140)), data.draw(st.integers(1, 140))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    logits, _ = random_case(rng, n_rows, width)
    words = pack_token_bitmask(random_case(rng, n_rows, mask_width)[1])
    rows = data.draw(st.lists(st.integers(0, n_rows - 1)))
    bits = unpack_token_bitmask(np.pad(words, [(0, 0), (0, 5)]), width)
    expected = logits.copy()
    expected[rows] = masked(logits, bits)[rows]
    apply_token_bitmask_inplace(logits, words, rows)
    np.testing.assert_array_equal(logits, expected)


def test_numpy_users_never_load_torch():
    code = (
        "import sys, numpy as np, fsmc; "
        "fsmc.apply_token_bitmask_inplace(np.zeros((1, 9), np.float32), fsmc.allocate_token_bitmask(1, 9)); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)


def test_a_matcher_that_fills_one_row_after_the_other():
    """The same mask needs no second look, but rows that do not exist are refused all the same."""
    vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    matcher = fsmc.GrammarMatcher(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("ab"))
    mask = fsmc.allocate_token_bitmask(3, vocab.size)
    for index, token in ((2, 0), (0, 1), (np.int64(1), 2)):
        matcher.fill_next_token_bitmask(mask, index)
        matcher.accept_token(token)
    assert mask[:, 0].tolist() == [2, 4, 1]
    for index, error in ((3, IndexError), (-1, IndexError), (True, TypeError), (1.0, TypeError)):
        with pytest.raises(error):
            matcher.fill_next_token_bitmask(mask, index)
