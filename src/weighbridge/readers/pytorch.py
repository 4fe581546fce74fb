"""Reads PyTorch files without PyTorch: those of `torch.save`, and TorchScript archives.

All contain a pickle that rebuilds each tensor from a storage beside it. The pickle is read as data
(`pickled`): nothing in it is imported or called, and a pickle that refers to anything that
checkpoints do not need is refused. Storages are not read; only their sizes are checked. The formats
are those of ``torch/serialization.py``.

A TorchScript archive has code beside its pickles, which is not read, and its modules are objects of
classes that this code defines. Constants of the code, such as the weights of a frozen module, are
in a second pickle, a tuple. See ``torch/csrc/jit/docs/serialization.md``.
"""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from weighbridge.errors import CheckpointError
from weighbridge.readers import archive, pickled
from weighbridge.readers.foreign import START_BYTES, check_bare_data, check_readable
from weighbridge.readers.header import Header, found_row
from weighbridge.readers.pickled import Called, Global, Reference
from weighbridge.readers.rules import (
    ELEMENTS_LIMIT,
    FETCH,
    REWRITE,
    Rule,
    check_text,
    elements,
    is_size,
)
from weighbridge.readers.severity import DANGEROUS, severity_of
from weighbridge.readers.stores import open_file, read_at, size_of
from weighbridge.readers.wrappers import contents_of
from weighbridge.units import NAMES, stored_bytes

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from weighbridge.ledger.rows import Row

LONGEST_PICKLE_BYTES = 100_000_000
LONGEST_DEFLATED_BYTES = 25_000_000  # torch.save never deflates
MOST_DEEP = 16
MOST_TENSORS = 150_000
MOST_DIMS = 64
LONGEST_NAMES = 16_000_000  # characters, of all names together
_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
_OLD_START = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9"  # the pickle of this number
_PROTOCOLS = b"\2\3\4\5"  # the second byte of a pickle

PICKLE = Rule(
    "torch-pickle",
    "a PyTorch archive must contain exactly one data.pkl",
    FETCH,
)
PICKLE_LIMIT = Rule(
    "torch-limit",
    f"the pickle may have at most {LONGEST_PICKLE_BYTES:,} bytes, "
    f"and {LONGEST_DEFLATED_BYTES:,} if it is deflated",
    FETCH,
)
NOT_ONE = Rule("torch-file", "the file must have the format that torch.save writes", FETCH)
TENSOR = Rule(
    "torch-tensor",
    f"a tensor must have a storage, and at most {MOST_DIMS} sizes and strides, "
    "which must be non-negative integers",
    REWRITE,
)
ELEMENTS = Rule("torch-elements", "a tensor must have fewer than 2^63 elements", REWRITE)
STORAGE = Rule("torch-storage", "a storage must be in the file, with its stated size", FETCH)
TWICE = Rule("torch-twice", "a tensor's name may occur only once", REWRITE)
BEYOND = Rule("torch-beyond", "a tensor must lie inside its storage", FETCH)
DEEP = Rule(
    "torch-deep",
    f"dicts may nest at most {MOST_DEEP} deep, and have at most {MOST_TENSORS:,} entries "
    f"and {LONGEST_NAMES:,} characters in their names",
    REWRITE,
)

# The classes of storages, and the dtypes that newer files name instead. Sources: torch/storage.py,
# torch/_utils.py.
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
# The names that a pickle may refer to: functions that rebuild tensors, and harmless objects that
# trainers store beside them. Nothing is run.
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
KNOWN = {
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
    # What DeepSpeed, Megatron and Lightning keep of their own state. Sources: deepspeed 0.17,
    # runtime/zero/stage_1_and_2.py; Megatron-LM, training/checkpointing.py; lightning 2.6.6,
    # pytorch/utilities/parsing.py.
    "deepspeed.runtime.fp16.loss_scaler.LossScaler",
    "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler",
    "deepspeed.runtime.zero.config.ZeroStageEnum",
    "deepspeed.utils.tensor_fragment.fragment_address",
    "megatron.core.enums.ModelType",
    "megatron.core.transformer.enums.AttnBackend",
    "lightning_fabric.utilities.data.AttributeDict",
    "lightning.fabric.utilities.data.AttributeDict",
    "pytorch_lightning.utilities.parsing.AttributeDict",
    "lightning.pytorch.utilities.parsing.AttributeDict",
    *(f"torch.{name}" for name in (*_STORAGES, *NAMES)),
    *(f"torch.storage.{name}" for name in ("TypedStorage", "UntypedStorage", "_TypedStorage")),
}
_OWN_CLASSES = "__torch__."
_TYPED = "torch.jit._pickle.restore_type_tag"  # a list or a dict, and the name of its type


class _KnownInScript:
    """The names that a pickle in a TorchScript archive may refer to: also classes of its code."""

    def __contains__(self, path: object) -> bool:
        return path in KNOWN or str(path).startswith((_OWN_CLASSES, "torch.jit._pickle."))


class _TorchTensor(NamedTuple):
    """A tensor as a pickle rebuilds it: its storage, and its place in that storage."""

    key: str
    stored: str
    length: int
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def recognise(start: bytes) -> bool:
    r"""Return whether a file's first 9 bytes look like a zip archive or a pickle.

    Example:
        >>> recognise(b"PK\x03\x04\x00\x00\x08\x08\x00"), recognise(b"GGUF\x03\x00\x00\x00\x00")
        (True, False)
    """
    return start[:4] == archive.MAGIC or (start[:1] == b"\x80" and start[1:2] in _PROTOCOLS)


def read(path: str) -> Header:
    """Return all tensors in a checkpoint, in the order in which they were saved.

    The keys of nested dicts, and the attributes of TorchScript modules, are joined by dots. Tensors
    that are the same view of the same storage are shared: the second is ``tied_to`` the first, and
    adds no parameters.

    Raises:
        CheckpointError: the file breaks a rule of the format; the message starts with the rule's
            name.
    """
    with open_file(path) as file:
        if read_at(file, 0, 4) == archive.MAGIC:
            pickles = _of_archive(file, path)
        else:
            pickles = [_of_pickles(file, path)]
    headers = [_header_of(pickle, path) for pickle in pickles]
    if len(headers) == 1:
        return headers[0]
    return _of_script(headers, path)


class _Pickle(NamedTuple):
    """What a checkpoint's pickle would build, its storage sizes, the bytes read, and the names.

    The names are those of the functions and classes that the pickle refers to.
    """

    content: Any
    sizes: dict[str, int]
    header_bytes: int
    named: dict[str, None]


def _header_of(pickle: _Pickle, path: str) -> Header:
    walk = _TensorWalk(path)
    tensors: dict[str, _TorchTensor] = {}
    for name, tensor in walk.tensors({"": pickle.content}, "", 0):
        if name in tensors:
            raise TWICE.broken(path, tensor=name)
        tensors[name] = tensor
    check_text([*tensors], path)
    contents = contents_of(walk.paths)
    rows = tuple(_rows(tensors, pickle.sizes, path, contents.roles))
    named = tuple(pickle.named)
    return Header(rows, {}, pickle.header_bytes, within=contents.within, named=named)


def _of_script(headers: list[Header], path: str) -> Header:
    """Return the header of a TorchScript archive: that of its model, with that of its constants."""
    model, constants = headers
    names = {row.name for row in model.rows}
    for row in constants.rows:
        if row.name in names:
            raise TWICE.broken(path, tensor=row.name)
    return model._replace(
        rows=model.rows + constants.rows,
        metadata={"archive": "TorchScript"},
        header_bytes=model.header_bytes + constants.header_bytes,
        named=tuple(dict.fromkeys(model.named + constants.named)),
    )


def _of_archive(file: BinaryIO, path: str) -> list[_Pickle]:
    """Return what the pickle in an archive would build, and what the constants of TorchScript."""
    members = archive.members(file, path)
    named = [name for name in members if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(named) != 1:
        check_readable(path, members=members)
        raise PICKLE.broken(path, members=len(members), found=", ".join(named))
    home = named[0].removesuffix("data.pkl")
    if f"{home}constants.pkl" not in members:
        return [_of_member(file, members, f"{home}data", path, KNOWN)]
    known = _KnownInScript()
    model = _of_member(file, members, f"{home}data", path, known)
    constants = _of_member(file, members, f"{home}constants", path, known)
    return [model, constants._replace(content={"constants": constants.content})]


def _of_member(
    file: BinaryIO,
    members: dict[str, archive.Member],
    stem: str,
    path: str,
    known: Container[str],
) -> _Pickle:
    """Return what a pickle in an archive would build; its storages are in a folder of its name."""
    pickle = members[f"{stem}.pkl"]
    is_deflated = pickle.packed < pickle.size
    if pickle.size > (LONGEST_DEFLATED_BYTES if is_deflated else LONGEST_PICKLE_BYTES):
        raise PICKLE_LIMIT.broken(path, pickle_bytes=pickle.size)
    raw = archive.content(file, pickle, path, pickle.size)
    names: dict[str, None] = {}
    content, _ = pickled.unpickled(raw, path, known=known, named=names)
    return _Pickle(content, _sizes_below(f"{stem}/", members), len(raw), names)


def _sizes_below(folder: str, members: dict[str, archive.Member]) -> dict[str, int]:
    """Return the sizes of the storages in a folder of an archive, by their keys."""
    return {
        name.removeprefix(folder): member.size
        for name, member in members.items()
        if name.startswith(folder)
    }


def _of_pickles(file: BinaryIO, path: str) -> _Pickle:
    """Return what the pickle of an older file would build.

    Such a file begins with five pickles: a magic number, a version, the system, the tensors, and
    the keys of the storages. `torch.load` runs all of them, so all are held to the list.
    """
    most = min(size_of(file), LONGEST_PICKLE_BYTES)
    length = min(_FIRST_PIECE, most)
    while True:
        raw, named = read_at(file, 0, length), dict[str, None]()
        if raw[:1] != _OLD_START[:1]:
            check_readable(path, raw[:START_BYTES])
            check_bare_data(path)
        try:
            built, at = _five_pickles(raw, path, named)
        except CheckpointError as error:
            if length == most or error.rule != pickled.CUT.name:
                _refuse_damaged(raw, named, path)
                raise
            length = min(4 * length, most)
            continue
        pickled.check_globals(named, KNOWN, path)
        if built[0] != _MAGIC_NUMBER:
            raise NOT_ONE.broken(path, starts_with=raw[:8])
        content, keys = built[3:]
        return _Pickle(content, dict(_laid_out(file, content, keys, at, path)), at, named)


def _refuse_damaged(raw: bytes, named: dict[str, None], path: str) -> None:
    """Refuse a file that is not five whole pickles, if it names what it should not or is no pickle.

    Text can look like a pickle that names something, so only what is dangerous counts there.
    """
    if raw[:1] == _OLD_START[:1]:
        pickled.check_globals(named, KNOWN, path)
        return
    dangerous = [name for name in named if severity_of(name) == DANGEROUS]
    pickled.check_globals(dangerous, KNOWN, path)
    raise NOT_ONE.broken(path, starts_with=raw[:8]) from None


def _five_pickles(raw: bytes, path: str, named: dict[str, None]) -> tuple[list[Any], int]:
    """Return what the pickles of an older file would build, and the offset after them.

    A file that begins otherwise than `torch.save` writes it has one pickle or more, which are read
    only for the names in them.
    """
    built, at = list[Any](), 0
    for _ in range(5):
        content, at = pickled.unpickled(raw, path, at, named=named)
        built.append(content)
    return built, at


_FIRST_PIECE = 1 << 20


def _laid_out(
    file: BinaryIO, found: Any, keys: Any, at: int, path: str
) -> Iterator[tuple[str, int]]:
    """Yield the size of each storage; storages lie end to end, each after its element count."""
    widths = {
        tensor.key: stored_bytes(1, tensor.stored) for _, tensor in _nested_tensors(found, path)
    }
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
            raise STORAGE.broken(
                path, key=key, elements=elements, ends=at, file_bytes=size_of(file)
            )
        yield key, taken


def _nested_tensors(value: Any, path: str) -> Iterator[tuple[str, _TorchTensor]]:
    """Yield the tensors in nested dicts and lists that a pickle would build."""
    return _TensorWalk(path).tensors({"": value}, "", 0)


class _TensorWalk:
    """Walks through nested dicts and lists, within the limits of the rule ``torch-deep``.

    ``paths`` has the keys that led to each tensor.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.paths: dict[str, tuple[str, ...]] = {}
        self._entries = self._characters = 0

    def tensors(
        self, value: Any, parent: str, depth: int, keys: tuple[str, ...] = ()
    ) -> Iterator[tuple[str, _TorchTensor]]:
        """Yield each tensor with its name, whose parts are joined by dots."""
        for key, found in value.items() if isinstance(value, dict) else enumerate(value):
            item = _content_of(found)
            if not isinstance(item, _VISITED):
                continue
            name = f"{parent}.{key}" if parent else str(key)
            self._count(name, depth)
            path = (*keys, str(key)) if name else ()
            if not isinstance(item, Called):
                yield from self.tensors(item, name, depth + 1, path)
            elif tensor := _rebuilt(item, name, self._path):
                self.paths[name] = path
                yield name, tensor

    def _count(self, name: str, depth: int) -> None:
        self._entries += 1
        self._characters += len(name)
        too_many = self._entries > MOST_TENSORS or self._characters > LONGEST_NAMES
        if depth > MOST_DEEP or too_many:
            sizes = {"entries": self._entries, "characters": self._characters}
            raise DEEP.broken(self._path, at=name, depth=depth, **sizes)


_VISITED = (Called, dict, list, tuple)


def _content_of(item: Any) -> Any:
    """Return the attributes of a TorchScript module, or a list without its type; else the item."""
    if not isinstance(item, Called) or not isinstance(item.what, Global):
        return item
    if item.what.path.startswith(_OWN_CLASSES) and isinstance(item.state, dict):
        return item.state
    if item.what.path == _TYPED and isinstance(item.arguments, tuple) and item.arguments:
        return item.arguments[0]
    return item


def _rebuilt(called: Called, name: str, path: str, depth: int = 1) -> _TorchTensor | None:
    """Return the tensor that a call would rebuild; None if the call does not rebuild a tensor."""
    what, arguments = called.what.path if isinstance(called.what, Global) else "", called.arguments
    if what in _REBUILD:
        return _tensor(arguments, name, path)
    if (
        what not in _WRAPPED
        or not isinstance(arguments, tuple)
        or not arguments
        or depth == MOST_DEEP
    ):
        return None
    inner = (
        Called(arguments[0], arguments[2])
        if what.endswith("from_type_v2") and len(arguments) > 2
        else arguments[0]
    )
    return _rebuilt(inner, name, path, depth + 1) if isinstance(inner, Called) else None


def _tensor(arguments: Any, name: str, path: str) -> _TorchTensor:
    if not isinstance(arguments, tuple) or len(arguments) < 4:
        raise TENSOR.broken(path, tensor=name)
    reference, offset, shape, strides = arguments[:4]
    key, stored, length = _storage(reference, name, path)
    shape, strides = _sizes_in(shape), _sizes_in(strides)
    if len(shape) != len(strides):
        raise TENSOR.broken(path, tensor=name, shape=shape, strides=strides)
    for number in (offset, *shape, *strides):
        if type(number) is not int or not 0 <= number < ELEMENTS_LIMIT:
            raise TENSOR.broken(path, tensor=name, shape=shape, strides=strides, offset=offset)
    for each in arguments[4:]:
        if isinstance(each, Global) and each.name in NAMES:
            return _TorchTensor(key, stored, length, NAMES[each.name], offset, shape, strides)
    return _TorchTensor(key, stored, length, stored, offset, shape, strides)


def _sizes_in(sizes: Any) -> tuple[Any, ...]:
    """Return the sizes in a tuple or in a call of `torch.Size`; ``(None,)`` for anything else."""
    if isinstance(sizes, Called) and isinstance(sizes.arguments, tuple) and sizes.arguments:
        sizes = sizes.arguments[0]
    return tuple(sizes) if isinstance(sizes, tuple | list) and len(sizes) <= MOST_DIMS else (None,)


def _storage(reference: Any, name: str, path: str) -> tuple[str, str, int]:
    """Return a storage's key, its dtype, and the number of its elements."""
    stored = reference.stored_as if isinstance(reference, Reference) else None
    if isinstance(stored, tuple) and len(stored) >= 5 and stored[0] == "storage":
        _, kind, key, _, length = stored[:5]
        dtype = _STORAGES.get(kind.name) if isinstance(kind, Global) else None
        if dtype and isinstance(key, str) and is_size(length):
            return key, dtype, length
    raise STORAGE.broken(path, tensor=name)


def _rows(
    tensors: dict[str, _TorchTensor], sizes: dict[str, int], path: str, roles: Mapping[str, str]
) -> Iterator[Row]:
    """Yield the rows of tensors; check that each lies inside its storage.

    Those with a role are not of the model: they add no parameters, and none is tied to them.
    """
    # The keys are texts, whose hashes nobody can predict: tuples of chosen numbers could collide.
    first: dict[tuple[str, str], str] = {}
    measures: dict[str, tuple[int, int, int]] = {}
    for name, tensor in tensors.items():
        key, kind = tensor.key, repr(tensor[1:])
        if not (measured := measures.get(kind)):
            measured = measures[kind] = _measured(tensor, name, path)
        count, storage_bytes, ends = measured
        if sizes.get(key) != storage_bytes:
            raise STORAGE.broken(
                path, tensor=name, key=key, bytes=sizes.get(key), stated=storage_bytes
            )
        if ends > storage_bytes:
            raise BEYOND.broken(path, tensor=name, ends=ends, storage_bytes=storage_bytes)
        row = found_row(name, tensor.shape, tensor.dtype, count)
        if name in roles:
            yield row._replace(role=roles[name], parameters=0)
            continue
        tied_to = first.setdefault((key, kind), name)
        yield row if tied_to == name or not count else row._replace(parameters=0, tied_to=tied_to)


def _measured(tensor: _TorchTensor, name: str, path: str) -> tuple[int, int, int]:
    """Return a tensor's elements, the bytes of its storage, and the offset of its end."""
    count = elements(tensor.shape)
    if count is None:
        raise ELEMENTS.broken(path, tensor=name, shape=tensor.shape)
    # The last element has the index size - 1 in each dim.
    last = tensor.offset + sum(map(mul, tensor.shape, tensor.strides)) - sum(tensor.strides)
    ends = stored_bytes(last + 1, tensor.dtype) if count else 0
    return count, stored_bytes(tensor.length, tensor.stored), ends
