"""Diagrams: boxes, arrows and labels, laid out from top to bottom for the width of a phone.

A diagram is data: parts inside parts, whose labels are prose with marks. `layout` turns it into
shapes with positions, which `diagram_svg` and `diagram_tikz` draw. They know nothing about models.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.render import math
from weighbridge.render.prose import Marks, Prose

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


# What a diagram consists of


class Box(NamedTuple):
    """A box with lines of prose; the first line is its name.

    A line break in a line is where it may be broken if there is not enough room.

    ``kind`` is ``"tensor"``, for what has parameters, ``"step"``, for what has none, or ``"data"``,
    for what flows from one to the next and has no frame. No arrow leads to a box without input.
    """

    lines: tuple[str, ...]
    kind: str = "tensor"
    has_input: bool = True


class Junction(NamedTuple):
    """A plus sign in a circle, which adds everything that leads to it."""

    sign: str = "+"


class Beside(NamedTuple):
    """Parts next to one another."""

    parts: tuple[Part, ...]


class Flow(NamedTuple):
    """Parts below one another, each leading to the next."""

    parts: tuple[Part, ...]


class Frame(NamedTuple):
    """A frame around parts below one another, with lines of a title in its corner."""

    title: tuple[str, ...]
    parts: tuple[Part, ...]


class Residual(NamedTuple):
    """Parts below one another, to whose result their input is added."""

    parts: tuple[Part, ...]


class Apart(NamedTuple):
    """Parts below one another, without a claim about how they are joined."""

    parts: tuple[Part, ...]


class Strip(NamedTuple):
    """A row of cells: its name, its label, and the text and width of each cell in columns.

    A cell with ``…`` stands for cells that are left out, and has no frame.
    """

    name: str
    label: str
    cells: tuple[tuple[str, int], ...]


class Strips(NamedTuple):
    """Rows of cells below one another, with the same columns."""

    strips: tuple[Strip, ...]


if TYPE_CHECKING:
    Part = Box | Junction | Beside | Flow | Frame | Residual | Apart | Strips


# What is drawn, in pixels


class Rectangle(NamedTuple):
    """A rectangle; ``kind`` is that of a box, or ``"frame"`` or ``"cell"``."""

    x: float
    y: float
    width: float
    height: float
    kind: str


class Polyline(NamedTuple):
    """A line through points, with an arrowhead at its end or without one."""

    points: tuple[tuple[float, float], ...]
    has_head: bool = True


class Ring(NamedTuple):
    """A circle around a sign."""

    x: float
    y: float
    sign: str


class Inscription(NamedTuple):
    """A line of prose, whose middle or beginning is at ``x``, on a baseline."""

    x: float
    baseline: float
    prose: str
    size: int
    is_centred: bool = True
    is_name: bool = False


if TYPE_CHECKING:
    Shape = Rectangle | Polyline | Ring | Inscription


class Drawing(NamedTuple):
    """The shapes of a diagram and their size."""

    width: float
    height: float
    shapes: tuple[Shape, ...]


WIDTH = 344  # pixels: a phone has 360, and its page has margins
NAME_SIZE, TEXT_SIZE = 12, 11  # pixels of a font; smaller ones are hard to read on a phone
RING = 8  # the radius
_LINE = 15  # from one baseline to the next
_PADDING = 5  # inside a box or frame
_GAP = 20  # below a part, for an arrow
_APART = 8  # between parts next to one another
_LANE = 14  # at the left, for what goes around a residual's parts
_CELL = 20  # the height of a cell
_MARGIN = 2


class _Ports(NamedTuple):
    """Where arrows reach a part and where they leave it."""

    entries: tuple[float, ...]
    top: float
    exits: tuple[float, ...]
    bottom: float
    end: float
    """The y coordinate below the part; its exits may be inside a frame, above it."""
    has_head: bool = True


_PLAIN = Marks(style=math.UNICODE, escape=str, strong="{}", code=str, math="{}")


def prose_width(prose: str, size: int, values: Mapping[str, Any]) -> float:
    """Return the approximate width of a line of prose in pixels, in a font that is rather wide."""
    text = Prose(_PLAIN, values).write(prose)
    width = sum(map(_advance, text)) * size
    if size == NAME_SIZE:
        width *= _BOLD
    return round(width, 1)


def _advance(character: str) -> float:
    """Return the width of a character in font sizes."""
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in " ,.:;·()'|…":
        return _NARROW
    if character.isupper():
        return _CAPITAL
    return _OTHER


_NARROW, _CAPITAL, _OTHER = 0.36, 0.7, 0.6  # of a font size; digits take less than 0.6
_BOLD = 1.05


def layout(parts: Sequence[Part], values: Mapping[str, Any]) -> Drawing:
    """Lay out parts below one another; ``values`` are those of the letters in their labels.

    The drawing is as wide as a phone, or wider if its labels need more.
    """
    plan = _Plan(values)
    flow = Flow(tuple(parts))
    beside = _LANE + _MARGIN
    width = max(WIDTH, plan.width(flow) + beside)
    ports = plan.draw(flow, _LANE, _MARGIN, width - beside)
    return Drawing(width, ports.end + _MARGIN, tuple(plan.shapes))


class _Plan:
    """The shapes drawn so far."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.shapes: list[Shape] = []

    # The width that a part needs

    def width(self, part: Part, *, is_broken: bool = True) -> float:
        """Return the width of a part, with all lines broken that may be, or with none."""
        if isinstance(part, Box):
            return self.width_of_box(part, is_broken=is_broken)
        if isinstance(part, Beside):
            gaps = _APART * (len(part.parts) - 1)
            return sum(self.width(below, is_broken=is_broken) for below in part.parts) + gaps
        if isinstance(part, Flow | Residual | Apart):
            return max(self.width(below, is_broken=is_broken) for below in part.parts)
        if isinstance(part, Frame):
            inside = max(self.width(below, is_broken=is_broken) for below in part.parts)
            titles = [self.text_width(line, TEXT_SIZE) for line in part.title]
            return max(inside, 2 * max(titles)) + 2 * _PADDING
        if isinstance(part, Strips):
            return max(self.text_width(strip.label, TEXT_SIZE) for strip in part.strips)
        return 2 * RING

    def width_of_box(self, box: Box, *, is_broken: bool) -> float:
        widths = []
        for number, line in enumerate(box.lines):
            size = _font(box, number)
            pieces = _pieces(line, is_broken=is_broken)
            widths.append(max(self.text_width(piece, size) for piece in pieces))
        return max(widths) + 2 * _PADDING

    def text_width(self, prose: str, size: int) -> float:
        return prose_width(prose, size, self.values)

    # Drawing a part at a place

    def draw(self, part: Part, x: float, y: float, width: float) -> _Ports:
        """Draw a part in the middle of a width, and return its ports."""
        if isinstance(part, Box):
            return self.draw_box(part, x, y, width)
        if isinstance(part, Beside):
            return self.draw_beside(part, x, y, width)
        if isinstance(part, Flow):
            return self.draw_flow(part.parts, x, y, width)
        if isinstance(part, Frame):
            return self.draw_frame(part, x, y, width)
        if isinstance(part, Residual):
            return self.draw_residual(part, x, y, width)
        if isinstance(part, Apart):
            return self.draw_apart(part, x, y, width)
        if isinstance(part, Strips):
            return self.draw_strips(part, x, y, width)
        middle = x + width / 2
        self.shapes.append(Ring(middle, y + RING, part.sign))
        return _Ports((middle,), y, (middle,), y + 2 * RING, y + 2 * RING)

    def draw_box(self, box: Box, x: float, y: float, width: float) -> _Ports:
        is_broken = self.width_of_box(box, is_broken=False) > width
        middle, wide = x + width / 2, self.width_of_box(box, is_broken=is_broken)
        written = []
        for number, line in enumerate(box.lines):
            written += [(piece, number) for piece in _pieces(line, is_broken=is_broken)]
        height = len(written) * _LINE
        baseline = y - 4
        if box.kind != "data":
            height += _PADDING
            baseline += _PADDING / 2
            self.shapes.append(Rectangle(middle - wide / 2, y, wide, height, box.kind))
        for piece, number in written:
            baseline += _LINE
            size = _font(box, number)
            is_name = size == NAME_SIZE
            self.shapes.append(Inscription(middle, baseline, piece, size, is_name=is_name))
        entries = (middle,) if box.has_input else ()
        return _Ports(entries, y, (middle,), y + height, y + height)

    def draw_beside(self, beside: Beside, x: float, y: float, width: float) -> _Ports:
        """Draw parts next to one another, and lead those that end earlier to the common end."""
        needed = self.shares(beside, width)
        gaps = _APART * (len(needed) - 1)
        spare = (width - sum(needed) - gaps) / len(needed)
        drawn = []
        for part, part_width in zip(beside.parts, needed, strict=True):
            drawn.append(self.draw(part, x, y, part_width + spare))
            x += part_width + spare + _APART
        end = max(ports.end for ports in drawn)
        for ports in drawn:
            if ports.bottom < end:
                self.shapes += [
                    Polyline(((exit_, ports.bottom), (exit_, end)), has_head=False)
                    for exit_ in ports.exits
                ]
        entries = tuple(entry for ports in drawn for entry in ports.entries)
        exits = tuple(exit_ for ports in drawn for exit_ in ports.exits)
        return _Ports(entries, y, exits, end, end)

    def shares(self, beside: Beside, width: float) -> list[float]:
        """Return the width for each part; lines of the widest parts are broken until all fit."""
        whole = [self.width(part, is_broken=False) for part in beside.parts]
        broken = [self.width(part) for part in beside.parts]
        needed = list(whole)
        for widest in sorted(set(whole), reverse=True):
            if sum(needed) + _APART * (len(needed) - 1) <= width:
                break
            for number, part_width in enumerate(whole):
                if part_width == widest:
                    needed[number] = broken[number]
        return needed

    def draw_flow(self, parts: Sequence[Part], x: float, y: float, width: float) -> _Ports:
        first = last = self.draw(parts[0], x, y, width)
        for part in parts[1:]:
            ports = self.draw(part, x, last.end + _GAP, width)
            self.connect(last.exits, last.bottom, ports.entries, ports.top, has_head=ports.has_head)
            last = ports
        return last._replace(entries=first.entries, top=first.top, has_head=first.has_head)

    def draw_frame(self, frame: Frame, x: float, y: float, width: float) -> _Ports:
        middle, top = x + width / 2, y + len(frame.title) * _LINE + _PADDING
        place = len(self.shapes)
        wide = width - 2 * _PADDING
        inside = self.draw_flow(frame.parts, x + _PADDING, top + _GAP / 2, wide)
        end = inside.end + _PADDING
        self.shapes.insert(place, Rectangle(x, y, width, end - y, "frame"))
        for number, line in enumerate(frame.title, 1):
            baseline = y + number * _LINE - 2
            title = Inscription(x + _PADDING, baseline, line, TEXT_SIZE, is_centred=False)
            self.shapes.append(title)
        self.connect((middle,), y, inside.entries, inside.top, has_head=inside.has_head)
        return _Ports((middle,), y, inside.exits, inside.bottom, end, has_head=False)

    def draw_residual(self, residual: Residual, x: float, y: float, width: float) -> _Ports:
        """Draw parts, and a line around them at the left, outside the width."""
        middle, lane = x + width / 2, x - _LANE + _MARGIN
        inside = self.draw_flow(residual.parts, x, y + _GAP / 2, width)
        self.connect((middle,), y, inside.entries, inside.top, has_head=inside.has_head)
        centre = inside.end + _GAP + RING
        self.connect(inside.exits, inside.bottom, (middle,), centre - RING, has_head=True)
        self.shapes.append(Ring(middle, centre, "+"))
        around = ((middle, y), (lane, y), (lane, centre), (middle - RING, centre))
        self.shapes.append(Polyline(around))
        end = centre + RING
        return _Ports((middle,), y, (middle,), end, end, has_head=False)

    def draw_apart(self, apart: Apart, x: float, y: float, width: float) -> _Ports:
        top = y
        for part in apart.parts:
            y = self.draw(part, x, y, width).end + _GAP / 2
        return _Ports((), top, (), y, y - _GAP / 2)

    def draw_strips(self, strips: Strips, x: float, y: float, width: float) -> _Ports:
        columns = max(sum(span for _, span in strip.cells) for strip in strips.strips)
        top, column = y, width / columns
        for strip in strips.strips:
            label = Inscription(x, y + _LINE - 4, strip.label, TEXT_SIZE, is_centred=False)
            self.shapes.append(label)
            y, left = y + _LINE, x
            for text, span in strip.cells:
                wide = span * column
                if text != "…":
                    self.shapes.append(Rectangle(left + 1, y, wide - 2, _CELL, "cell"))
                self.shapes.append(Inscription(left + wide / 2, y + 14, text, TEXT_SIZE))
                left += wide
            y += _CELL + 4
        middle = x + width / 2
        return _Ports((middle,), top, (middle,), y - 4, y - 4)

    def connect(
        self,
        exits: Sequence[float],
        bottom: float,
        entries: Sequence[float],
        top: float,
        *,
        has_head: bool,
    ) -> None:
        """Draw arrows from exits to entries: one to one, or all through one horizontal line."""
        if not exits or not entries:
            return
        if len(exits) == len(entries):
            for start, end in zip(exits, entries, strict=True):
                self.shapes.append(_elbow(start, bottom, end, top, has_head=has_head))
            return
        bend = top - _GAP / 2
        ends = sorted([*exits, *entries])
        self.shapes.append(Polyline(((ends[0], bend), (ends[-1], bend)), has_head=False))
        for start in exits:
            self.shapes.append(Polyline(((start, bottom), (start, bend)), has_head=False))
        for end in entries:
            self.shapes.append(Polyline(((end, bend), (end, top)), has_head))


def _font(box: Box, line: int) -> int:
    """Return the font size of a line of a box: that of a name, or of other text."""
    if line == 0 and box.kind == "tensor":
        return NAME_SIZE
    return TEXT_SIZE


def _pieces(line: str, *, is_broken: bool) -> list[str]:
    if is_broken:
        return line.split("\n")
    return [line.replace("\n", " ")]


def _elbow(start: float, bottom: float, end: float, top: float, *, has_head: bool) -> Polyline:
    """Return a vertical line, with a bend if its ends are not above one another."""
    if abs(start - end) < 1:
        return Polyline(((start, bottom), (end, top)), has_head)
    bend = top - _GAP / 2
    return Polyline(((start, bottom), (start, bend), (end, bend), (end, top)), has_head)


def with_prose(part: Any, rewritten: Callable[[str], str]) -> Any:
    """Return a part, or several, with a function applied to every label.

    Example:
        >>> with_prose((Junction(), Box(("norm", "$H$"))), lambda prose: prose.replace("H", "h"))
        (Junction(sign='+'), Box(lines=('norm', '$h$'), kind='tensor', has_input=True))
    """
    if isinstance(part, Box):
        return part._replace(lines=tuple(map(rewritten, part.lines)))
    if isinstance(part, Junction):
        return part
    if isinstance(part, Strips):
        strips = [strip._replace(label=rewritten(strip.label)) for strip in part.strips]
        return Strips(tuple(strips))
    if isinstance(part, Frame):
        title = tuple(map(rewritten, part.title))
        return Frame(title, with_prose(part.parts, rewritten))
    if isinstance(part, Beside | Flow | Residual | Apart):
        return type(part)(with_prose(part.parts, rewritten))
    return tuple(with_prose(below, rewritten) for below in part)


def labels(parts: Sequence[Part]) -> list[str]:
    """Return every label of a diagram, in order, as prose."""
    found: list[str] = []

    def note(label: str) -> str:
        found.append(label)
        return label

    with_prose(tuple(parts), note)
    return found


def description(
    parts: Sequence[Part], values: Mapping[str, Any], *, only_names: bool = False
) -> str:
    """Describe a diagram in one line of plain text, for those who cannot see it.

    Example:
        >>> boxes = (Box(("words", "$V$ × $H$")), Box(("positions", "$P$ × $H$")))
        >>> parts = (Beside(boxes), Junction(), Box(("vector",), "data"))
        >>> description(parts, {})
        'words V × H; positions P × H → + → vector'
        >>> description(parts, {}, only_names=True)
        'words; positions → +'
    """
    return _Describer(Prose(_PLAIN, values), only_names).chain(parts)


def _is_data(part: Part) -> bool:
    return isinstance(part, Box) and part.kind == "data"


class _Describer(NamedTuple):
    """Describes parts, with their sizes or with the names of what computes alone."""

    prose: Prose
    only_names: bool

    def chain(self, parts: Sequence[Part]) -> str:
        if self.only_names:
            parts = [part for part in parts if not _is_data(part)]
        return " → ".join(map(self.part, parts))

    def part(self, part: Part) -> str:
        if isinstance(part, Box):
            return self.box(part)
        if isinstance(part, Junction):
            return part.sign
        if isinstance(part, Strips):
            return "; ".join(map(self.strip, part.strips))
        if isinstance(part, Beside | Apart):
            return "; ".join(map(self.part, part.parts))
        inside = self.chain(part.parts)
        if isinstance(part, Frame):
            return f"{self.title(part)} ({inside})"
        if isinstance(part, Residual):
            return f"+ ({inside})"
        return inside

    def box(self, box: Box) -> str:
        lines = box.lines[:1] if self.only_names else box.lines
        return " ".join(self.prose.write(line.replace("\n", " ")) for line in lines)

    def strip(self, strip: Strip) -> str:
        return self.prose.write(strip.name if self.only_names else strip.label)

    def title(self, frame: Frame) -> str:
        lines = frame.title[:1] if self.only_names else frame.title
        return ", ".join(map(self.prose.write, lines))
