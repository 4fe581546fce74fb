"""Reads a pickle as data: returns what it would build, but imports, calls and sets nothing.

A pickle is a program for a stack machine. This machine builds lists, dicts, tuples, numbers and
strings as Python's own does. An import becomes a `Global` and a call becomes a `Called`; neither
does anything, and it is up to the reader to interpret them. The instructions are those of Python's
``pickletools``, protocols 0 to 5.
"""

from __future__ import annotations

import struct
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.readers.rules import FETCH, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

MOST_STEPS = 1_800_000  # a tensor takes about 40, and each may create an object of 60 bytes
_MOST_DIGITS = 20

STEP = Rule("pickle-step", "a pickle must consist of known instructions with valid operands", FETCH)
STEPS = Rule("pickle-steps", f"a pickle may have at most {MOST_STEPS:,} instructions", FETCH)
CUT = Rule("pickle-cut", "a pickle must end with a STOP instruction", FETCH)
GLOBAL = Rule(
    "pickle-global",
    "a pickle may refer only to functions and classes that checkpoints need",
    "do not load this checkpoint",
)
KEY = Rule("pickle-key", "a key must be a string, a number or null", FETCH)


class Global(NamedTuple):
    """An object that a pickle would import; ``path`` is its module and name, joined by a dot."""

    module: str
    name: str
    path: str


class Called:
    """A call that a pickle would make, its arguments, and the ``state`` of the result."""

    __slots__ = ("arguments", "state", "what")

    def __init__(self, what: Any, arguments: Any) -> None:
        self.what, self.arguments, self.state = what, arguments, None


class Reference:
    """An object that is stored outside the pickle."""

    __slots__ = ("stored_as",)

    def __init__(self, stored_as: Any) -> None:
        self.stored_as = stored_as


def unpickled(
    raw: bytes, path: str, start: int = 0, *, known: Container[str] | None = None
) -> tuple[Any, int]:
    """Return what a pickle would build, and the offset of its end.

    If ``known`` is given, the pickle may refer only to these functions and classes.

    Raises:
        CheckpointError: this is not a pickle, or it is cut off, or it refers to something unknown.

    Example:
        >>> import os, pickle
        >>> unpickled(pickle.dumps({"a": [1, 2.5, None]}), "a.pkl")[0]
        {'a': [1, 2.5, None]}
        >>> unpickled(pickle.dumps(os.getcwd), "a.pkl")[0].path
        'posix.getcwd'
    """
    machine = _Machine(raw, path, known)
    try:
        if _run(machine, start):
            return machine.stack.pop(), machine.at + 1
    except _WRONG as error:
        at = machine.at
        last = at + 1 == len(raw) and not raw.endswith(b".")
        cut = last or at >= len(raw) or isinstance(error, _PickleCutError | struct.error)
        rule = CUT if cut else STEP
        problem = {} if cut else {"problem": f"{type(error).__name__}: {error}"}
        raise rule.broken(path, at=at, bytes=len(raw), **problem) from None
    raise STEPS.broken(path, at=machine.at, bytes=len(raw))


def _run(machine: _Machine, at: int) -> bool:  # noqa: C901  # see below
    """Run instructions, and return whether STOP was reached; ``machine.at`` is the last one.

    A checkpoint of a thousand tensors has thirty thousand instructions. The most frequent ones are
    run in place, because a call would take longer than the work; all others are in the table.
    """
    raw, stack, memo, marks = machine.raw, machine.stack, machine.memo, machine.marks
    push, number_at = stack.append, struct.Struct("<I").unpack_from
    stop, long_put, get, byte, long_text, mark, marked, pair = b".rhKX(t\x86"
    try:
        for _ in repeat(None, MOST_STEPS):
            code = raw[at]
            if code == stop:
                return True
            if code == long_put:
                memo[number_at(raw, at + 1)[0]] = stack[-1]
                at += 5
            elif code == get:
                push(memo[raw[at + 1]])
                at += 2
            elif code == byte:
                push(raw[at + 1])
                at += 2
            elif code == long_text:
                begin = at + 5
                end = begin + number_at(raw, at + 1)[0]
                if end > len(raw):
                    raise _PickleCutError
                push(raw[begin:end].decode("utf-8", "surrogatepass"))
                at = end
            elif code == mark:
                marks.append(len(stack))
                at += 1
            elif code == marked:
                begin = marks.pop()
                items = tuple(stack[begin:])
                del stack[begin:]
                push(items)
                at += 1
            elif code == pair:
                second = stack.pop()
                stack[-1] = (stack[-1], second)
                at += 1
            else:
                at = _DO[code](machine, at + 1)
    finally:
        machine.at = at
    return False


class _PickleCutError(Exception):
    """The pickle ends before an operand does."""


_WRONG = (
    _PickleCutError,
    struct.error,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


class _Machine:
    """The state that instructions work on.

    An instruction takes the machine and its own offset, and returns the offset of the next one.
    """

    __slots__ = ("at", "copied", "known", "marks", "memo", "path", "raw", "stack")

    def __init__(self, raw: bytes, path: str, known: Container[str] | None) -> None:
        self.raw, self.path, self.known = raw, path, known
        self.at = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.copied = 0

    def taken(self, at: int, length: int) -> bytes:
        """Return ``length`` bytes at an offset."""
        if length > len(self.raw) - at:
            raise _PickleCutError
        return self.raw[at : at + length]

    def line(self, at: int) -> tuple[bytes, int]:
        """Return the bytes up to the end of the line, and the offset of the next line."""
        end = self.raw.find(b"\n", at)
        if end < 0:
            raise _PickleCutError
        return self.raw[at:end], end + 1

    def since_mark(self) -> list[Any]:
        """Remove the items above the last mark from the stack, and return them."""
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def set_in(self, into: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Put pairs into a dict; ignore pairs for anything else."""
        for key, value in pairs:
            if not isinstance(key, _KEYS):
                raise KEY.broken(self.path, found=type(key).__name__)
            if isinstance(into, dict):
                into[key] = value

    def named(self, module: str, name: str) -> Global:
        """Return what would be imported, if it is known."""
        imported = Global(module, name, f"{module}.{name}")
        if self.known is not None and imported.path not in self.known:
            raise GLOBAL.broken(self.path, name=imported.path)
        return imported


_KEYS = (str, int, float, bytes, type(None))
_DICTS = {"collections.OrderedDict", "collections.defaultdict", "builtins.dict", "__builtin__.dict"}


# Instructions of one kind each


def _skip(length: int) -> Callable[[_Machine, int], int]:
    def step(_machine: _Machine, at: int) -> int:
        return at + length

    return step


def _push(value: Any) -> Callable[[_Machine, int], int]:
    def step(machine: _Machine, at: int) -> int:
        machine.stack.append(value)
        return at

    return step


def _new(make: Callable[[], Any]) -> Callable[[_Machine, int], int]:
    def step(machine: _Machine, at: int) -> int:
        machine.stack.append(make())
        return at

    return step


def _push_number(form: str) -> Callable[[_Machine, int], int]:
    packed = struct.Struct(form)

    def step(machine: _Machine, at: int) -> int:
        machine.stack.append(packed.unpack_from(machine.raw, at)[0])
        return at + packed.size

    return step


def _counted(form: str, make: Callable[[bytes], Any]) -> Callable[[_Machine, int], int]:
    """Return an instruction that pushes an object made from bytes, which follow their number."""
    packed = struct.Struct(form)

    def step(machine: _Machine, at: int) -> int:
        length = packed.unpack_from(machine.raw, at)[0]
        begin = at + packed.size
        machine.stack.append(make(machine.taken(begin, length)))
        return int(begin + length)

    return step


def _lined(make: Callable[[bytes], Any]) -> Callable[[_Machine, int], int]:
    """Return an instruction that pushes an object made from a line."""

    def step(machine: _Machine, at: int) -> int:
        line, at = machine.line(at)
        machine.stack.append(make(line))
        return at

    return step


def _tuple_of(length: int) -> Callable[[_Machine, int], int]:
    def step(machine: _Machine, at: int) -> int:
        stack = machine.stack
        if len(stack) < length:
            raise IndexError("too few items on the stack")
        stack[-length:] = [tuple(stack[-length:])]
        return at

    return step


def _marked(make: Callable[[list[Any]], Any]) -> Callable[[_Machine, int], int]:
    """Return an instruction that pushes an object made from all items above the mark."""

    def step(machine: _Machine, at: int) -> int:
        machine.stack.append(make(machine.since_mark()))
        return at

    return step


# All other instructions


def _pop(machine: _Machine, at: int) -> int:
    if machine.marks and machine.marks[-1] == len(machine.stack):
        machine.marks.pop()
    else:
        machine.stack.pop()
    return at


def _pop_mark(machine: _Machine, at: int) -> int:
    machine.since_mark()
    return at


def _duplicate(machine: _Machine, at: int) -> int:
    machine.stack.append(machine.stack[-1])
    return at


def _append(machine: _Machine, at: int) -> int:
    item = machine.stack.pop()
    if isinstance(machine.stack[-1], list):
        machine.stack[-1].append(item)
    return at


def _appends(machine: _Machine, at: int) -> int:
    items = machine.since_mark()
    if isinstance(machine.stack[-1], list):
        machine.stack[-1].extend(items)
    return at


def _set_item(machine: _Machine, at: int) -> int:
    value, key = machine.stack.pop(), machine.stack.pop()
    machine.set_in(machine.stack[-1], [(key, value)])
    return at


def _set_items(machine: _Machine, at: int) -> int:
    items = machine.since_mark()
    machine.set_in(machine.stack[-1], zip(items[::2], items[1::2], strict=True))
    return at


def _dict(machine: _Machine, at: int) -> int:
    items = machine.since_mark()
    machine.stack.append({})
    machine.set_in(machine.stack[-1], zip(items[::2], items[1::2], strict=True))
    return at


def _global(machine: _Machine, at: int) -> int:
    module, at = machine.line(at)
    name, at = machine.line(at)
    machine.stack.append(machine.named(module.decode(), name.decode()))
    return at


def _global_of_stack(machine: _Machine, at: int) -> int:
    name, module = machine.stack.pop(), machine.stack.pop()
    if not isinstance(module, str) or not isinstance(name, str):
        raise TypeError("a name is not a string")
    machine.stack.append(machine.named(module, name))
    return at


def _build(machine: _Machine, at: int) -> int:
    state = machine.stack.pop()
    if isinstance(machine.stack[-1], Called):
        machine.stack[-1].state = state
    return at


def _put(machine: _Machine, at: int) -> int:
    machine.memo[machine.taken(at, 1)[0]] = machine.stack[-1]
    return at + 1


def _get(machine: _Machine, at: int) -> int:
    machine.stack.append(machine.memo[int.from_bytes(machine.taken(at, 4), "little")])
    return at + 4


def _put_line(machine: _Machine, at: int) -> int:
    line, at = machine.line(at)
    machine.memo[_integer(line)] = machine.stack[-1]
    return at


def _get_line(machine: _Machine, at: int) -> int:
    line, at = machine.line(at)
    machine.stack.append(machine.memo[_integer(line)])
    return at


def _memoize(machine: _Machine, at: int) -> int:
    machine.memo[len(machine.memo)] = machine.stack[-1]
    return at


def _call(machine: _Machine, at: int) -> int:
    """Push a `Called`, except that a dict is created."""
    stack = machine.stack
    arguments = stack.pop()
    what = stack[-1]
    if type(what) is Global and what.path in _DICTS:
        made: dict[Any, Any] = {}
        if arguments and isinstance(arguments[-1], list | tuple):
            machine.copied += len(arguments[-1])
            # Any number of dicts may be created from the same list of pairs.
            if machine.copied > len(machine.raw):
                raise ValueError("the dicts have more pairs than the pickle has bytes")
            machine.set_in(made, ((pair[0], pair[1]) for pair in arguments[-1]))
        stack[-1] = made
    else:
        stack[-1] = Called(what, arguments)
    return at


def _call_with_names(machine: _Machine, at: int) -> int:
    machine.stack.pop()
    return _call(machine, at)


def _refer(machine: _Machine, at: int) -> int:
    machine.stack[-1] = Reference(machine.stack[-1])
    return at


def _unknown(machine: _Machine, at: int) -> int:
    raise ValueError(f"unknown instruction {machine.raw[at - 1 : at]!r}")


# Objects made from bytes


def _integer(text: bytes) -> int:
    if text in (b"00", b"01"):
        return text == b"01"
    if len(text) > _MOST_DIGITS:
        raise ValueError("an integer has too many digits")
    return int(text)


def _long(text: bytes) -> int:
    return _integer(text.rstrip(b"L"))


def _signed(raw: bytes) -> int:
    if len(raw) > 0xFF:
        raise ValueError("an integer has too many bytes")
    return int.from_bytes(raw, "little", signed=True)


def _new_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _old_text(raw: bytes) -> str:
    return raw.decode("latin-1")


def _quoted(raw: bytes) -> str:
    return _old_text(raw.strip(b"'\""))


def _escaped(raw: bytes) -> str:
    return raw.decode("raw-unicode-escape")


_STEPS: dict[bytes, Callable[[_Machine, int], int]] = {
    b"\x80": _skip(1),  # the protocol
    b"\x95": _skip(8),  # a frame
    b"0": _pop,
    b"1": _pop_mark,
    b"2": _duplicate,
    b"N": _push(value=None),
    b"\x88": _push(value=True),
    b"\x89": _push(value=False),
    b"]": _new(list),
    b"}": _new(dict),
    b")": _push(value=()),
    b"\x8f": _new(list),  # an empty set
    b"M": _push_number("<H"),
    b"J": _push_number("<i"),
    b"G": _push_number(">d"),
    b"I": _lined(_integer),
    b"L": _lined(_long),
    b"F": _lined(float),
    b"\x8a": _counted("<B", _signed),
    b"\x8b": _counted("<I", _signed),
    b"S": _lined(_quoted),
    b"V": _lined(_escaped),
    b"U": _counted("<B", _old_text),
    b"T": _counted("<I", _old_text),
    b"\x8c": _counted("<B", _new_text),
    b"\x8d": _counted("<Q", _new_text),
    b"C": _counted("<B", bytes),
    b"B": _counted("<I", bytes),
    b"\x8e": _counted("<Q", bytes),
    b"\x96": _counted("<Q", bytes),
    b"a": _append,
    b"e": _appends,
    b"\x90": _appends,
    b"l": _marked(list),
    b"\x91": _marked(tuple),  # a frozen set
    b"\x85": _tuple_of(1),
    b"\x87": _tuple_of(3),
    b"d": _dict,
    b"s": _set_item,
    b"u": _set_items,
    b"c": _global,
    b"\x93": _global_of_stack,
    b"R": _call,
    b"\x81": _call,
    b"\x92": _call_with_names,
    b"b": _build,
    b"p": _put_line,
    b"q": _put,
    b"\x94": _memoize,
    b"g": _get_line,
    b"j": _get,
    b"Q": _refer,
}
_DO = [_STEPS.get(bytes([code]), _unknown) for code in range(256)]
