"""Units: the width of each dtype, and the format of numbers. Numbers are formatted only here."""

from __future__ import annotations

from math import gcd

from weighbridge.errors import UsageError
from weighbridge.lean_typing import NamedTuple


class Dtype(NamedTuple):
    """The storage of elements: the number in one block, and the bytes of the block."""

    elements: int
    bytes: int


# Bits per element, by the safetensors name of the dtype. Source: the Dtype enum of the safetensors
# format, https://github.com/huggingface/safetensors (tensor.rs).
DTYPE_BITS = {
    "F64": 64,
    "F32": 32,
    "F16": 16,
    "BF16": 16,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F4": 4,
    "C64": 64,
    "I64": 64,
    "I32": 32,
    "I16": 16,
    "I8": 8,
    "U64": 64,
    "U32": 32,
    "U16": 16,
    "U8": 8,
    "BOOL": 8,
}

# ggml types that store elements in blocks together with their scales.
# Source: https://github.com/ggml-org/ggml (gguf-py, GGML_QUANT_SIZES of gguf 0.19.0).
BLOCKS = {
    "Q1_0": (128, 18),
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q5_0": (32, 22),
    "Q5_1": (32, 24),
    "Q8_0": (32, 34),
    "Q8_1": (32, 40),
    "Q2_K": (256, 84),
    "Q3_K": (256, 110),
    "Q4_K": (256, 144),
    "Q5_K": (256, 176),
    "Q6_K": (256, 210),
    "Q8_K": (256, 292),
    "IQ1_S": (256, 50),
    "IQ1_M": (256, 56),
    "IQ2_XXS": (256, 66),
    "IQ2_XS": (256, 74),
    "IQ2_S": (256, 82),
    "IQ3_XXS": (256, 98),
    "IQ3_S": (256, 110),
    "IQ4_NL": (32, 18),
    "IQ4_XS": (256, 136),
    "TQ1_0": (256, 54),
    "TQ2_0": (256, 66),
    "MXFP4": (32, 17),
    "NVFP4": (64, 36),
}
DTYPES = {name: Dtype(8 // gcd(8, bits), bits // gcd(8, bits)) for name, bits in DTYPE_BITS.items()}
DTYPES |= {"C128": Dtype(1, 16)}  # PyTorch and NumPy
DTYPES |= {"I4": Dtype(2, 1), "U4": Dtype(2, 1), "I2": Dtype(4, 1), "U2": Dtype(4, 1)}  # ONNX
DTYPES |= {name: Dtype(*block) for name, block in BLOCKS.items()}

# The dtypes of PyTorch, NumPy and JAX, by their names there.
NAMES = {
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

_DTYPE_ALIASES = {
    "FLOAT64": "F64",
    "DOUBLE": "F64",
    "FLOAT32": "F32",
    "FLOAT": "F32",
    "FP32": "F32",
    "FLOAT16": "F16",
    "HALF": "F16",
    "FP16": "F16",
    "BFLOAT16": "BF16",
    "FLOAT8_E4M3FN": "F8_E4M3",
    "FLOAT8_E5M2": "F8_E5M2",
    "FP8": "F8_E4M3",
    "FP4": "F4",
    "INT64": "I64",
    "INT32": "I32",
    "INT16": "I16",
    "INT8": "I8",
    "UINT8": "U8",
}


def dtype(name: str) -> str:
    """Return the canonical name of a dtype, given any of its names.

    Raises:
        UsageError: there is no such dtype.

    Example:
        >>> dtype("bfloat16"), dtype("torch.float32"), dtype("f16")
        ('BF16', 'F32', 'F16')
    """
    upper = str(name).upper().removeprefix("TORCH.")
    known = _DTYPE_ALIASES.get(upper, upper)
    if known not in DTYPE_BITS:
        raise UsageError(
            "no such dtype",
            values={"dtype": name},
            hint="use one of " + ", ".join(sorted(DTYPE_BITS)),
        )
    return known


def is_dtype(name: str) -> bool:
    """Whether `dtype` knows this name.

    Example:
        >>> is_dtype("torch.bfloat16"), is_dtype("float33")
        (True, False)
    """
    upper = name.upper().removeprefix("TORCH.")
    return upper in _DTYPE_ALIASES or upper in DTYPE_BITS


def stored_bytes(elements: int, dtype_name: str) -> int:
    """Return the bytes that a number of elements take, rounded up to a whole byte.

    Example:
        >>> stored_bytes(102_267_648, "F32"), stored_bytes(3, "F4"), stored_bytes(64, "Q4_0")
        (409070592, 2, 36)
    """
    of_block, taken = DTYPES[dtype_name]
    return -(-elements * taken // of_block)


def count(number: int) -> str:
    """Write a count in full, with commas between groups of three digits.

    Example:
        >>> count(102267648)
        '102,267,648'
    """
    return f"{number:,}"


def signed(number: int) -> str:
    """Write a difference in full, with its sign.

    Example:
        >>> signed(1234), signed(-1234), signed(0)
        ('+1,234', '-1,234', '0')
    """
    return f"{number:+,}" if number else "0"


def number(value: float) -> str:
    """Write a number from a config: an integer as a count, a fraction unchanged.

    Example:
        >>> number(21128), number(2.5)
        ('21,128', '2.5')
    """
    return count(value) if isinstance(value, int) else str(value)


def fixed(value: float, decimals: int) -> str:
    """Write a number with a given number of decimals.

    Example:
        >>> fixed(413.178711, 2)
        '413.18'
    """
    return f"{value:.{decimals}f}"


def measured(value: float, among: float = 0.0) -> str:
    """Write a measured value with three digits, or 0 if it is rounding noise ``among`` larger ones.

    Example:
        >>> measured(-0.0123456), measured(123456.0), measured(-1.05e-08, among=2.15)
        ('-0.0123', '1.23e+05', '0')
    """
    return "0" if abs(value) < _FLOAT32_DIGITS * among else f"{value:.3g}"


_FLOAT32_DIGITS = 1e-6  # the rounding error of a float32 sum, relative to its terms


def share(part: int, whole: int) -> str:
    """Write a part as a percentage of a whole, with one decimal.

    Example:
        >>> share(16_622_592, 102_267_648), share(1, 102_267_648), share(0, 0)
        ('16.3%', '<0.1%', '-')
    """
    if not whole:
        return "-"
    return percent(part / whole)


def fraction(part: int, whole: int) -> float:
    """Return what part of a whole something is; of nothing, nothing.

    Example:
        >>> fraction(1, 4), fraction(0, 0)
        (0.25, 0.0)
    """
    if not whole:
        return 0.0
    return part / whole


def percent(part: float) -> str:
    """Write a fraction of one, such as a probability, as a percentage with one decimal.

    Example:
        >>> percent(0.4213), percent(0.00001)
        ('42.1%', '<0.1%')
    """
    if 0 < part < _SMALLEST_SHARE:
        return "<0.1%"
    return f"{100 * part:.1f}%"


_SMALLEST_SHARE = 0.0005  # smaller shares would be shown as 0.0%


def short(number: int) -> str:
    """Write a count in short form: three digits and K, M, B, T (10^12), P, E, Z or Y (10^24).

    Example:
        >>> short(102_267_648), short(671_026_404_352), short(768), short(16_730 * 10**12)
        ('102M', '671B', '768', '16.7P')
    """
    return _scaled(number, 1000, ("", "K", "M", "B", "T", "P", "E", "Z", "Y"))


def size(number_of_bytes: int) -> str:
    """Write a number of bytes in binary units: KiB, MiB, GiB and so on.

    Example:
        >>> size(409_070_592), size(512)
        ('390 MiB', '512 B')
    """
    return _scaled(number_of_bytes, 1024, (" B", " KiB", " MiB", " GiB", " TiB", " PiB"))


def rate(value: float, unit: str) -> str:
    """Write a rate with three digits, in thousands of a unit: k, M, G, T or P.

    Example:
        >>> rate(989.4e12, "FLOP/s"), rate(3_350_000_000_000, "B/s")
        ('989 TFLOP/s', '3.35 TB/s')
    """
    return _scaled(value, 1000, tuple(f" {prefix}{unit}" for prefix in ("", *"kMGTP")))


def three_digits(value: float) -> str:
    """Write a number with three digits, or with all those before the point.

    Example:
        >>> three_digits(989.4), three_digits(27.2), three_digits(10066.3)
        ('989', '27.2', '10066')
    """
    return f"{value:.{_decimals(value)}f}"


def _scaled(number: float, base: int, units: tuple[str, ...]) -> str:
    value, steps = float(number), 0
    while value >= base - 0.5 and steps < len(units) - 1:
        value, steps = value / base, steps + 1
    decimals = _decimals(value)
    if steps == 0:
        decimals = 0
    return f"{value:.{decimals}f}{units[steps]}"


def _decimals(value: float) -> int:
    """Return how many decimals make three digits."""
    if value >= 99.95:
        return 0
    if value >= 9.995:
        return 1
    return 2
