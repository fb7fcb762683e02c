"""Index files: what is written comes back as read-only views, and nothing that was not written is believed."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from fsmc.compiler.errors import IndexFileError
from fsmc.compiler.tokens.store import from_bytes, load_arrays, save_arrays, to_bytes

KIND = "fsmc-test"
METADATA = {"kind": KIND, "format": "1", "source": 'a"é\n'}
ARRAYS = {
    "byte_class": np.arange(256, dtype=np.uint8),
    "delta": np.arange(30, dtype=np.int32).reshape(5, 6),
    "accepting": np.array([True, False, True]),
    "offsets": np.array([0, 1 << 40], dtype=np.int64),
    "empty": np.zeros((0, 3), dtype=np.int16),
    "scalar": np.array(7, dtype=np.uint32),
}


def assert_same(arrays, expected):
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        assert array.dtype == expected[name].dtype
        assert array.shape == expected[name].shape
        assert np.array_equal(array, expected[name])
        # one kind of array for the kernels: plain, aligned, contiguous, read-only
        assert type(array) is np.ndarray
        assert array.flags.c_contiguous and array.flags.aligned and not array.flags.writeable


def test_file_comes_back(tmp_path):
    save_arrays(tmp_path / "x.fsmc", ARRAYS, METADATA)
    arrays, metadata = load_arrays(tmp_path / "x.fsmc", kind=KIND)
    assert_same(arrays, ARRAYS)
    assert metadata == METADATA
    assert os.listdir(tmp_path) == ["x.fsmc"]


def test_other_readers_understand_the_file(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    save_arrays(tmp_path / "x.fsmc", ARRAYS, METADATA)
    with safetensors.safe_open(str(tmp_path / "x.fsmc"), "np") as file:
        assert file.metadata().items() >= METADATA.items()
        for name in file.keys():  # noqa: SIM118 (it is no mapping)
            assert np.array_equal(file.get_tensor(name), ARRAYS[name])


DTYPES = st.sampled_from([np.bool_, np.uint8, np.int8, np.int16, np.int32, np.uint32, np.int64, np.float32])
ANY_ARRAY = DTYPES.flatmap(
    lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


@given(st.dictionaries(st.text(min_size=1, max_size=5).filter(lambda n: n != "__metadata__"), ANY_ARRAY, max_size=5))
@settings(max_examples=60, deadline=None)
def test_any_arrays_come_back(arrays):
    if any(0xD800 <= ord(c) < 0xE000 for name in arrays for c in name):
        return
    expected = {n: np.nan_to_num(a) if a.dtype == np.float32 else a for n, a in arrays.items()}
    assert_same(from_bytes(to_bytes(expected, {"kind": KIND}), kind=KIND)[0], expected)


def test_column_major_and_strided_arrays_are_stored_in_order():
    array = np.arange(24, dtype=np.int32).reshape(4, 6)
    arrays, _ = from_bytes(to_bytes({"f": np.asfortranarray(array), "s": array[::2, ::3]}, METADATA), kind=KIND)
    assert np.array_equal(arrays["f"], array) and np.array_equal(arrays["s"], array[::2, ::3])


@pytest.mark.parametrize(
    ("arrays", "metadata", "message"),
    [
        ({"x": np.array(["text"])}, METADATA, "'x' of dtype <U4"),
        ({"x": np.array([object()])}, METADATA, "'x' of dtype object"),
        ({}, {"format": "1"}, "kind"),
        ({}, METADATA | {"checksum": "x"}, "checksum"),
    ],
)
def test_what_cannot_be_stored_is_refused(arrays, metadata, message):
    with pytest.raises(ValueError, match=message):
        to_bytes(arrays, metadata)


def test_every_truncation_is_noticed():
    content = to_bytes(ARRAYS, METADATA)
    for length in (*range(40), *range(40, len(content), 7), len(content) - 1):
        with pytest.raises(IndexFileError, match=r"x\.fsmc: "):
            from_bytes(content[:length], kind=KIND, where="x.fsmc")


def test_every_flipped_byte_is_noticed():
    content = to_bytes(ARRAYS, METADATA)
    header_end = 8 + int.from_bytes(content[:8], "little")
    padding = header_end - len(content[:header_end].rstrip(b" "))
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0x41
        if header_end - padding <= place < header_end and damaged[place] in b" \t\n\r":
            continue
        with pytest.raises(IndexFileError):
            from_bytes(bytes(damaged), kind=KIND)


def test_appended_bytes_are_noticed():
    with pytest.raises(IndexFileError, match="3 bytes too many"):
        from_bytes(to_bytes(ARRAYS, METADATA) + b"abc", kind=KIND)


def with_header(change, content=None):
    content = content or to_bytes({"x": np.arange(4, dtype=np.int32), "y": np.arange(2, dtype=np.uint8)}, METADATA)
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["x"].update(dtype="I64"),
        lambda h: h["x"].update(dtype="F8_E4M3"),
        lambda h: h["x"].update(dtype=["I32"]),
        lambda h: h["x"].update(shape=[4, 1]),
        lambda h: h["x"].update(shape=[5]),
        lambda h: h["x"].update(shape=[-2, -2]),
        lambda h: h["x"].update(shape=[1 << 62, 1 << 62, 0]),
        lambda h: h["x"].update(shape=[1 << 70, 0], data_offsets=[0, 0]),
        lambda h: h["x"].update(shape="4"),
        lambda h: h["x"].update(data_offsets=[4, 20]),
        lambda h: h["x"].update(data_offsets=[-16, 0]),
        lambda h: h["x"].update(data_offsets=[0, 1 << 50], shape=[1 << 48]),
        lambda h: h["x"].update(data_offsets=[0]),
        lambda h: h["x"].update(data_offsets=None),
        lambda h: h["y"].update(data_offsets=[0, 2]),  # overlaps x
        lambda h: h.update(x=7),
        lambda h: h.pop("x"),
        lambda h: h.update(z=h.pop("x")),
        lambda h: h.pop("__metadata__"),
        lambda h: h.update(__metadata__=[]),
        lambda h: h["__metadata__"].update(kind=3),
        lambda h: h["__metadata__"].update(source="b"),
        lambda h: h["__metadata__"].pop("checksum"),
    ],
)
def test_headers_that_lie_are_refused(change):
    with pytest.raises(IndexFileError):
        from_bytes(with_header(change), kind=KIND)


def test_unchanged_header_passes():
    arrays, _ = from_bytes(with_header(lambda h: None), kind=KIND)
    assert arrays["x"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty or truncated"),
        (b"PK\x03\x04" + bytes(100), "not an index file|truncated"),
        ((10).to_bytes(8, "little") + b"not json!!", "no JSON"),
        ((2).to_bytes(8, "little") + b"[]", "no JSON object"),
        ((6).to_bytes(8, "little") + b'{"a":1' + bytes(9), "no JSON"),
        ((1 << 63).to_bytes(8, "little") + bytes(20), "does not start like one"),
        ((50_000).to_bytes(8, "little") + b"[" * 50_000, "no JSON"),
    ],
)
def test_foreign_files_are_refused(tmp_path, content, message):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(IndexFileError, match=message):
        load_arrays(tmp_path / "x", kind=KIND)


def test_foreign_safetensors_and_other_kinds_are_refused(tmp_path):
    numpy_files = pytest.importorskip("safetensors.numpy")
    numpy_files.save_file({"x": np.arange(3)}, str(tmp_path / "model.safetensors"))
    with pytest.raises(IndexFileError, match="not one of fsmc's"):
        load_arrays(tmp_path / "model.safetensors", kind=KIND)
    with pytest.raises(IndexFileError, match="this is 'fsmc-test', expected 'fsmc-grammar'"):
        from_bytes(to_bytes(ARRAYS, METADATA), kind="fsmc-grammar")


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(IndexFileError, match=r"gone.*No such file"):
        load_arrays(tmp_path / "gone", kind=KIND)
    with pytest.raises(IndexFileError, match="cannot be read"):
        load_arrays(tmp_path, kind=KIND)


def test_who_has_the_old_file_mapped_keeps_it(tmp_path):
    path = tmp_path / "x"
    save_arrays(path, {"x": np.arange(100_000)}, METADATA)
    old, _ = load_arrays(path, kind=KIND)
    save_arrays(path, {"x": np.zeros(3)}, METADATA)
    assert np.array_equal(old["x"], np.arange(100_000))
    assert load_arrays(path, kind=KIND)[0]["x"].tolist() == [0, 0, 0]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "x"
    save_arrays(path, {"x": np.arange(3)}, METADATA)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_arrays(path, {"x": np.zeros(9)}, METADATA)
    assert load_arrays(path, kind=KIND)[0]["x"].tolist() == [0, 1, 2]
    assert os.listdir(tmp_path) == ["x"]


def test_writing_into_a_missing_folder_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        save_arrays(tmp_path / "gone" / "x", ARRAYS, METADATA)


def test_a_missing_folder_is_named(tmp_path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        save_arrays(tmp_path / "missing" / "x.fsmc", ARRAYS, METADATA)
    assert caught.value.filename == str(tmp_path / "missing")
