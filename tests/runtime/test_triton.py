"""The Triton kernel, in Triton's interpreter on the CPU, against the CPU kernel; on a real device where there is one."""

import importlib.util

import numpy as np
import pytest

from fsmc.runtime import bitmask

torch = pytest.importorskip("torch", reason="the kernel takes torch tensors")
pytest.importorskip("triton", reason="triton is not installed")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
WIDTHS = [1, 32, 45, 4096, 4097, 9000]


@pytest.fixture(scope="module")
def interpreted():
    """A copy of the module whose kernel runs in the interpreter (chosen when the kernel is decorated)."""
    spec = importlib.util.find_spec("fsmc.runtime.bitmask_triton")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        spec.loader.exec_module(module)
    return module.apply_token_bitmask_triton


def random_case(width, mask_width, n_rows=3, n_mask_rows=3):
    generator = torch.Generator().manual_seed(width)
    logits = torch.randn(n_rows, width, generator=generator)
    allowed = torch.rand(n_mask_rows, mask_width, generator=generator) < 0.5
    allowed[:, mask_width // 2 :] = True
    return logits, torch.from_numpy(bitmask.pack_token_bitmask(allowed.numpy()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_against_the_cpu_kernel(interpreted, dtype, width):
    logits, mask = random_case(width, width)
    logits = logits.to(dtype)
    expected = logits.clone()
    bitmask.apply_token_bitmask_inplace(expected, mask)
    interpreted(logits, mask)
    assert torch.equal(logits, expected)


@pytest.mark.parametrize("width, mask_width", [(5000, 100), (4500, 4096), (100, 5000), (4096, 32)])
def test_widths_that_differ(interpreted, width, mask_width):
    logits, mask = random_case(width, mask_width)
    expected = logits.clone()
    bitmask.apply_token_bitmask_inplace(expected, mask)
    interpreted(logits, mask)
    assert torch.equal(logits, expected)


def test_chosen_rows(interpreted):
    logits, mask = random_case(70, 70, n_rows=5, n_mask_rows=4)
    expected = logits.clone()
    bitmask.apply_token_bitmask_inplace(expected, mask, [3, 1])
    interpreted(logits, mask, torch.tensor([3, 1]))
    assert torch.equal(logits, expected)


def test_rows_out_of_range_are_skipped(interpreted):
    logits, mask = random_case(70, 70, n_rows=2, n_mask_rows=4)
    around = torch.zeros(4, 70)
    around[1:3] = logits
    expected = around.clone()
    bitmask.apply_token_bitmask_inplace(expected[1:3], mask, [1])
    interpreted(around[1:3], mask, torch.tensor([-1, 1, 2, 3]))
    assert torch.equal(around, expected)


def test_rows_of_a_wider_tensor(interpreted):
    logits, mask = random_case(200, 60)
    wide_mask = torch.nn.functional.pad(mask, (0, 3))
    expected = logits.clone()
    bitmask.apply_token_bitmask_inplace(expected[:, 50:150], mask)
    interpreted(logits[:, 50:150], wide_mask[:, : mask.shape[1]])
    assert torch.equal(logits, expected)


def test_nothing_to_do(interpreted):
    interpreted(torch.zeros(0, 40), torch.zeros(0, 2, dtype=torch.int32))
    logits = torch.zeros(2, 40)
    interpreted(logits, torch.zeros(2, 2, dtype=torch.int32), torch.zeros(0, dtype=torch.int64))
    assert not logits.any()


def test_tensors_are_checked_and_moved_before_the_kernel(monkeypatch):
    """What happens around the kernel on a CUDA device, with the CPU in its place."""
    logits, mask = random_case(70, 70)
    numpy_mask = mask.numpy()
    rows, words = bitmask._on_device(logits, numpy_mask, [2, 0])[2], bitmask._on_device(logits, numpy_mask, None)[1]
    assert rows.tolist() == [2, 0] and torch.equal(words, mask)
    unchecked = torch.tensor([9])
    assert bitmask._on_device(logits, mask, unchecked)[2] is unchecked  # never waits for the device
    for bad, error, message in [
        ((logits.to(torch.int32), mask, None), TypeError, "bfloat16"),
        ((logits, mask.long(), None), TypeError, "int32"),
        ((logits, mask[:2], None), ValueError, "3 rows of logits and 2 of the mask"),
        ((logits, mask, [3]), IndexError, "out of range"),
        ((logits.T, mask, [0]), ValueError, "adjacent"),
    ]:
        with pytest.raises(error, match=message):
            bitmask._on_device(*bad)


@needs_cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("indices", [None, [2, 0]])
def test_on_a_device(dtype, indices):
    logits, mask = random_case(128_256, 128_000)
    expected = logits.to(dtype)
    on_device = expected.cuda()
    bitmask.apply_token_bitmask_inplace(expected, mask, indices)
    for given in (mask, mask.numpy(), mask.cuda()):
        result = on_device.clone()
        bitmask.apply_token_bitmask_inplace(result, given, indices)
        np.testing.assert_array_equal(result.cpu().float().numpy(), expected.float().numpy())
