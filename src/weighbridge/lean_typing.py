"""The parts of `typing` that are needed at run time, without importing it.

Importing `typing` takes as long as weighing a model, and annotations do not need it, because they
are not evaluated. Type checkers see the real `NamedTuple`; at run time a class with the same
fields, defaults and methods stands in for it.
"""

from __future__ import annotations

from operator import itemgetter

TYPE_CHECKING = False
"""False at run time and true for type checkers, like `typing.TYPE_CHECKING`."""

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414  # to be imported from here
else:

    class _NamedTupleClass(type):
        """A metaclass of tuples: annotations become fields, and their values defaults."""

        def __new__(cls, name, bases, namespace):
            fields = namespace.get("__annotations__", {})
            if fields:
                defaults = {field: namespace[field] for field in fields if field in namespace}
                if list(defaults) != list(fields)[len(fields) - len(defaults) :]:
                    raise TypeError(f"a field of {name} without a default follows one with it")
                namespace |= {"_fields": tuple(fields), "_field_defaults": defaults}
                namespace["_last_values"] = tuple(defaults.values())
                namespace["__match_args__"] = tuple(fields)
                for place, field in enumerate(fields):
                    namespace[field] = property(itemgetter(place))
            return super().__new__(cls, name, bases, {"__slots__": (), **namespace})

    class NamedTuple(tuple, metaclass=_NamedTupleClass):
        """A tuple whose items have names, in the order of the class's annotations.

        Example:
            >>> class Size(NamedTuple):
            ...     width: int
            ...     height: int = 1
            >>> Size(3), Size(3).height, Size(height=2, width=3)._replace(width=4)
            (Size(width=3, height=1), 1, Size(width=4, height=2))
        """

        __slots__ = ()
        _fields = ()
        _last_values = ()  # the defaults, which belong to the last fields

        def __new__(cls, *values, **named):
            """Make a tuple from values, in order or by name.

            Raises:
                TypeError: a value is missing, is given twice, or does not belong to a field.
            """
            fields = cls._fields
            if not named:
                left_out = len(fields) - len(values)
                if left_out == 0:
                    return tuple.__new__(cls, values)
                if 0 < left_out <= len(cls._last_values):
                    return tuple.__new__(cls, values + cls._last_values[-left_out:])
            if len(values) > len(fields):
                raise TypeError(f"{cls.__name__} has {len(fields)} fields, not {len(values)}")
            placed = dict(zip(fields, values, strict=False))
            unfit = [name for name in named if name in placed or name not in fields]
            if unfit:
                raise TypeError(f"{cls.__name__} does not take {', '.join(unfit)}")
            known = {**cls._field_defaults, **placed, **named}
            missing = [name for name in fields if name not in known]
            if missing:
                raise TypeError(f"{cls.__name__} needs {', '.join(missing)}")
            return tuple.__new__(cls, [known[name] for name in fields])

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, **changed):
            values = tuple(map(changed.pop, self._fields, self))
            return type(self)(*values, **changed)

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            shown = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self):
            return tuple(self)
