"""Reads what a PyTorch checkpoint holds, `torch.save`'s zip archives and its older files, without PyTorch.

Both hold a pickle that says how each tensor is rebuilt from a storage that lies beside it. The pickle is read as data
(`pickled`): nothing in it is imported or called, and one that would call what no checkpoint needs is refused. Of
storages only their sizes are looked at. The formats are those of ``torch/serialization.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from weighbridge.errors import CheckpointError
from weighbridge.ledger import Row
from weighbridge.readers import archive, pickled
from weighbridge.readers.header import FETCH, REWRITE, Header, Rule, check_text, is_size, open_file, read_at, size_of
from weighbridge.readers.pickled import Called, Global, Reference
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_PICKLE_BYTES = 200_000_000
MOST_DEEP = 16
MOST_TENSORS = 500_000
MOST_DIMS = 64
LONGEST_NAMES = 50_000_000  # characters, of all names together
_LIMIT = 2**63
_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
_OLD_START = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9"  # the pickle of this number

PICKLE = Rule("torch-pickle", "a PyTorch archive must hold one data.pkl", "if it is TorchScript, save its state dict")
PICKLE_LIMIT = Rule("torch-limit", f"the pickle may have at most {LONGEST_PICKLE_BYTES:,} bytes", FETCH)
NOT_ONE = Rule("torch-file", "the file must be what torch.save writes", FETCH)
TENSOR = Rule(
    "torch-tensor",
    f"a tensor must have a storage, and sizes and strides that are whole numbers, at most {MOST_DIMS} of each",
    REWRITE,
)
ELEMENTS = Rule("torch-elements", "a tensor must have fewer than 2^63 elements", REWRITE)
STORAGE = Rule("torch-storage", "a storage must lie in the file, of the size that is stated", FETCH)
BEYOND = Rule("torch-beyond", "a tensor must lie inside its storage", FETCH)
DEEP = Rule(
    "torch-deep",
    f"dicts may nest at most {MOST_DEEP} deep, and hold at most {MOST_TENSORS:,} entries, of names of at most"
    f" {LONGEST_NAMES:,} characters together",
    REWRITE,
)

# The classes of storages, and the dtypes that newer files name instead. Source: torch/storage.py, torch/_utils.py.
_STORAGES = {
    "DoubleStorage": "F64",
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "LongStorage": "I64",
    "IntStorage": "I32",
    "ShortStorage": "I16",
    "CharStorage": "I8",
    "ByteStorage": "U8",
    "BoolStorage": "BOOL",
    "ComplexFloatStorage": "C64",
    "ComplexDoubleStorage": "C128",
    "QInt8Storage": "I8",
    "QUInt8Storage": "U8",
    "QInt32Storage": "I32",
    "UntypedStorage": "U8",
}
_DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
    "complex128": "C128",
}
# What a pickle may name: what rebuilds tensors, and harmless objects that trainers keep beside them. Nothing is run.
_REBUILD = {
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_qtensor",
}
_WRAPPED = {
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._tensor._rebuild_from_type_v2",
    "torch.nn.parameter.Parameter",
}
_KNOWN = {
    *_REBUILD,
    *_WRAPPED,
    "collections.OrderedDict",
    "collections.defaultdict",
    "collections.Counter",
    "builtins.set",
    "__builtin__.set",
    "builtins.dict",
    "__builtin__.dict",
    "builtins.list",
    "builtins.int",
    "builtins.float",
    "builtins.slice",
    "builtins.complex",
    "builtins.bytearray",
    "_codecs.encode",
    "argparse.Namespace",
    "torch.Size",
    "torch.device",
    "torch.Tensor",
    "torch.Generator",
    "torch.serialization._get_layout",
    "numpy.dtype",
    "numpy.core.multiarray.scalar",
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "numpy._core.multiarray._reconstruct",
    "numpy.ndarray",
    "pathlib.PosixPath",
    "pathlib._local.PosixPath",
    *(f"torch.{name}" for name in (*_STORAGES, *_DTYPES)),
    *(f"torch.storage.{name}" for name in ("TypedStorage", "UntypedStorage", "_TypedStorage")),
}


class _Storage(NamedTuple):
    """A storage: its key, its dtype, and how many elements of it there are."""

    key: str
    dtype: str
    elements: int


class _Tensor(NamedTuple):
    """A tensor as a pickle has it rebuilt."""

    storage: _Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def recognise(start: bytes) -> bool:
    r"""Tell whether a file's first 9 bytes look like a zip archive, or like the pickles of older files.

    Example:
        >>> recognise(b"PK\x03\x04\x00\x00\x08\x08\x00"), recognise(b"GGUF\x03\x00\x00\x00\x00")
        (True, False)
    """
    return start[:4] == archive.MAGIC or start[:9] == _OLD_START


def read(path: str) -> Header:
    """Return every tensor in a checkpoint, nested dicts under dotted names, in the order in which they were saved.

    Tensors that are one view of one storage are shared: the second is ``tied_to`` the first and adds no parameters.

    Raises:
        CheckpointError: the file breaks a rule of the format; the message starts with the rule's name.
    """
    with open_file(path) as file:
        if read_at(file, 0, 4) == archive.MAGIC:
            found, sizes, header_bytes = _of_archive(file, path)
        else:
            found, sizes, header_bytes = _of_pickles(file, path)
    tensors = dict(_tensors(found, path))
    check_text([*tensors], path)
    return Header(tuple(_rows(tensors, sizes, path)), {}, header_bytes)


def _of_archive(file: BinaryIO, path: str) -> tuple[Any, dict[str, int], int]:
    """Return what the pickle in an archive would build, the bytes of each storage, and the bytes read."""
    members = archive.members(file, path)
    named = [name for name in members if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(named) != 1:
        raise PICKLE.broken(path, members=len(members), found=", ".join(named))
    pickle, home = members[named[0]], named[0].removesuffix("data.pkl") + "data/"
    if pickle.size > LONGEST_PICKLE_BYTES:
        raise PICKLE_LIMIT.broken(path, pickle_bytes=pickle.size)
    raw = archive.content(file, pickle, path, pickle.size)
    found, _ = pickled.load(raw, path, known=_KNOWN)
    sizes = {name.removeprefix(home): member.size for name, member in members.items() if name.startswith(home)}
    return found, sizes, len(raw)


def _of_pickles(file: BinaryIO, path: str) -> tuple[Any, dict[str, int], int]:
    """Return the same of a file of five pickles: a number, a version, the machine, the tensors, the storages' keys."""
    file_bytes, length = size_of(file), _FIRST_PIECE
    while True:
        raw = read_at(file, 0, length)
        if raw[:1] != _OLD_START[:1]:
            raise NOT_ONE.broken(path, starts_with=raw[:8])
        try:
            magic, at = pickled.load(raw, path)
            if magic != _MAGIC_NUMBER:
                raise NOT_ONE.broken(path, starts_with=raw[:8])
            for _ in range(2):
                _, at = pickled.load(raw, path, at)
            found, at = pickled.load(raw, path, at, known=_KNOWN)
            keys, at = pickled.load(raw, path, at)
        except CheckpointError as error:
            if length >= min(file_bytes, LONGEST_PICKLE_BYTES) or not error.what.startswith(pickled.CUT.name):
                raise
            length *= 4
            continue
        return found, dict(_laid_out(file, found, keys, at, path)), at


_FIRST_PIECE = 1 << 20


def _laid_out(file: BinaryIO, found: Any, keys: Any, at: int, path: str) -> Iterator[tuple[str, int]]:
    """Yield the bytes of each storage, which lie behind one another, each after its number of elements."""
    widths = {tensor.storage.key: stored_bytes(1, tensor.storage.dtype) for _, tensor in _tensors(found, path)}
    if not isinstance(keys, list):
        raise NOT_ONE.broken(path, keys=keys)
    for key in keys:
        stated = read_at(file, at, 8)
        if not isinstance(key, str) or len(stated) < 8:
            raise STORAGE.broken(path, key=key, at=at)
        elements = int.from_bytes(stated, "little", signed=True)
        taken = elements * widths.get(key, 1)
        at += 8 + max(taken, 0)
        if elements < 0 or at > size_of(file):
            raise STORAGE.broken(path, key=key, elements=elements, ends=at, file_bytes=size_of(file))
        yield key, taken


def _tensors(found: Any, path: str) -> Iterator[tuple[str, _Tensor]]:
    """Yield the tensors that stand in what a pickle would build: in dicts and lists, in one another."""
    visited = named = 0

    def inside(value: Any, name: str, depth: int) -> Iterator[tuple[str, _Tensor]]:
        nonlocal visited, named
        visited, named = visited + 1, named + len(name)
        if depth > MOST_DEEP or visited > MOST_TENSORS or named > LONGEST_NAMES:
            raise DEEP.broken(path, at=name, depth=depth, entries=visited, characters=named)
        if isinstance(value, Called):
            tensor = _rebuilt(value, name, path)
            if tensor is not None:
                yield name, tensor
        elif isinstance(value, dict | list | tuple):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                if isinstance(item, dict | list | tuple | Called):
                    yield from inside(item, f"{name}.{key}" if name else str(key), depth + 1)

    return inside(found, "", 0)


def _rebuilt(called: Called, name: str, path: str) -> _Tensor | None:
    """Return the tensor that a call would rebuild; None of a call that rebuilds none."""
    for _ in range(MOST_DEEP):
        what = called.what.path if isinstance(called.what, Global) else ""
        arguments = called.arguments
        if what in _REBUILD:
            return _tensor(arguments, name, path)
        if what not in _WRAPPED or not isinstance(arguments, tuple) or not arguments:
            return None
        inner = (
            Called(arguments[0], arguments[2]) if what.endswith("from_type_v2") and len(arguments) > 2 else arguments[0]
        )
        if not isinstance(inner, Called):
            return None
        called = inner
    return None


def _tensor(arguments: Any, name: str, path: str) -> _Tensor:
    if not isinstance(arguments, tuple) or len(arguments) < 4:
        raise TENSOR.broken(path, tensor=name)
    reference, offset, shape, strides = arguments[:4]
    storage = _storage(reference, name, path)
    shape, strides = (tuple(_sizes(sizes)) for sizes in (shape, strides))
    if not (is_size(offset) and len(shape) == len(strides) and all(map(is_size, (*shape, *strides)))):
        raise TENSOR.broken(path, tensor=name, shape=shape, strides=strides, offset=offset)
    named = next((each for each in arguments[4:] if isinstance(each, Global) and each.name in _DTYPES), None)
    return _Tensor(storage, _DTYPES[named.name] if named else storage.dtype, offset, shape, strides)


def _sizes(sizes: Any) -> Any:
    """Return the sizes in a tuple, or in the call of `torch.Size` that some files have in its place; null if none."""
    if isinstance(sizes, Called) and isinstance(sizes.arguments, tuple) and sizes.arguments:
        sizes = sizes.arguments[0]
    return sizes if isinstance(sizes, tuple | list) and len(sizes) <= MOST_DIMS else (None,)


def _storage(reference: Any, name: str, path: str) -> _Storage:
    told = reference.told if isinstance(reference, Reference) else None
    if isinstance(told, tuple) and len(told) >= 5 and told[0] == "storage":
        _, kind, key, _, elements = told[:5]
        dtype = _STORAGES.get(kind.name) if isinstance(kind, Global) else None
        if dtype and isinstance(key, str) and is_size(elements):
            return _Storage(key, dtype, elements)
    raise STORAGE.broken(path, tensor=name)


def _rows(tensors: dict[str, _Tensor], sizes: dict[str, int], path: str) -> Iterator[Row]:
    """Yield the rows of tensors, each held to lie inside its storage, and that inside the file."""
    first: dict[_Tensor, str] = {}
    for name, tensor in tensors.items():
        count = 1
        for size in tensor.shape:
            count *= size
            if max(count, size) >= _LIMIT:
                raise ELEMENTS.broken(path, tensor=name, shape=tensor.shape)
        held = stored_bytes(tensor.storage.elements, tensor.storage.dtype)
        if sizes.get(tensor.storage.key) != held:
            raise STORAGE.broken(
                path, tensor=name, key=tensor.storage.key, bytes=sizes.get(tensor.storage.key), stated=held
            )
        last = tensor.offset + sum(
            (size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True)
        )
        if count and stored_bytes(last + 1, tensor.dtype) > held:
            raise BEYOND.broken(path, tensor=name, ends=stored_bytes(last + 1, tensor.dtype), storage_bytes=held)
        tied_to = first.setdefault(tensor, name)
        tied = tied_to != name and count > 0
        yield Row(
            name,
            tensor.shape,
            tensor.dtype,
            role="",
            dims=(),
            count=count,
            parameters=0 if tied else count,
            tied_to=tied_to if tied else None,
        )
