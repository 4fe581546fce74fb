"""Cuts the math font of the explorer's pages from Latin Modern Math.

    python tools/mathfont.py latinmodern-math.otf      # needs: pip install fonttools brotli

It writes `src/weighbridge/data/pages/math.woff2`: the letters, digits and signs that
`web/src/math.ts` writes, without the larger forms of signs that stretch, since ours do not. The
font is under the GUST Font License, which asks for another name for what is derived from it;
NOTICE says so.
"""

from __future__ import annotations

import argparse
import string
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src" / "weighbridge" / "data" / "pages" / "math.woff2"
NAME = "Weighbridge Math"
_CAPITALS, _LETTERS = 0x1D434, 0x1D44E  # the first italic letters of mathematics
_SINGLE = (
    "bcdeijkmnpstwx"  # the small letters of sizes, counts and indices; others are only in indices
)
_UPRIGHT = string.ascii_lowercase + string.digits + "O"  # W_O is the only index with a capital
_SIGNS = " .,()[]{}|/_#:+-=<>·×÷−≤≥≠∈∉⌊⌋⌈⌉√"
_GREEK = (ord("β"), ord("γ"), 0x1D6FD, 0x1D6FE)
_TIMES = 0x2062  # the product that is not seen
_NAMES = {1: NAME, 3: f"{NAME}, a subset of Latin Modern Math 1.959", 4: NAME, 6: "WeighbridgeMath"}
_COPYRIGHT = 0


def characters() -> set[int]:
    """Return the characters that formulas are written with."""
    small = {_LETTERS + string.ascii_lowercase.index(letter) for letter in _SINGLE}
    italic = small | {_CAPITALS + at for at in range(26)}
    plain = {ord(character) for character in _UPRIGHT + _SIGNS}
    return plain | italic | {_TIMES, *_GREEK}


def no_variants() -> object:
    """Return an empty table of larger forms; without one, Firefox discards the whole table MATH."""
    from fontTools.ttLib.tables.otTables import MathVariants  # noqa: PLC0415  # only this needs it

    variants = MathVariants()
    variants.MinConnectorOverlap = 0
    variants.VertGlyphCoverage = variants.HorizGlyphCoverage = None
    variants.VertGlyphCount = variants.HorizGlyphCount = 0
    variants.VertGlyphConstruction = variants.HorizGlyphConstruction = []
    return variants


def main() -> int:
    """Write the font of a command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("font", type=Path)
    options = parser.parse_args()
    from fontTools import subset  # noqa: PLC0415  # only this needs it
    from fontTools.ttLib import TTFont  # noqa: PLC0415

    font = TTFont(options.font)
    font["MATH"].table.MathVariants = no_variants()
    chosen = subset.Options(
        flavor="woff2", layout_features=[], hinting=False, desubroutinize=True, name_IDs=["*"]
    )
    cutter = subset.Subsetter(chosen)
    cutter.populate(unicodes=characters())
    cutter.subset(font)
    names = font["name"]
    names.names = [name for name in names.names if name.nameID == _COPYRIGHT]
    for name_id, text in _NAMES.items():
        names.setName(text, name_id, 3, 1, 0x409)
    subset.save_font(font, TARGET, chosen)
    print(f"{TARGET.name}: {TARGET.stat().st_size} bytes, {len(characters())} characters")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
