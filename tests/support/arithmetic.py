"""Evaluates the arithmetic that an article prints, as a reader would."""

import re

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def value_of(written):
    """Evaluate a line of numbers as a reader would, independently of the code that wrote it."""
    python = re.sub(
        r"[⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda power: "**" + power[0].translate(SUPERSCRIPTS), written
    )
    python = python.replace(",", "").replace("×", "*").replace("/", "//")
    assert re.fullmatch(r"[\d+\-*/() ]+", python), written
    return eval(python, {"__builtins__": {}})  # noqa: S307  # digits and operators only


def chains(text):
    """Yield, for each chain of equalities, the parts that hold only numbers.

    A long part continues on a line with a deeper indent.
    """
    for block in re.findall(
        r"^    (\S.*(?:\n        .*)*(?:\n      = .*(?:\n        .*)*)+)", text, re.MULTILINE
    ):
        parts = [
            part.strip().removeprefix("= ") for part in re.sub(r"\n {8}", " ", block).split("\n")
        ]
        numeric = [part for part in parts if not re.search("[A-Za-z]", part)]
        if len(parts) > 1:
            yield numeric


def integers(text):
    return sorted(int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", text))
