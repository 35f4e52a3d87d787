"""Format counts, times, and the readers of tail tasks as short texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def format_count(number: float) -> str:
    """Format a count as a short text.

    >>> [format_count(n) for n in (0, 950, 1200, 58665, 999_999, 3_400_000)]
    ['0', '950', '1.2k', '59k', '1.0M', '3.4M']
    """
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if float(f"{abs(number):.3g}") >= limit:  # avoids 1000k
            value = number / limit
            is_long = abs(value) >= 9.95  # avoids 10.0k
            return f"{value:.0f}{suffix}" if is_long else f"{value:.1f}{suffix}"
    return f"{number:.0f}"


def format_seconds(seconds: float, digits: int = 2) -> str:
    """Format a time with `digits` significant digits, or as a longer integer; `∞` if infinite.

    >>> [format_seconds(s) for s in (0, 0.0000042, 0.00015, 0.25, 0.9999, 3.14, 250)]
    ['0 s', '4.2 µs', '150 µs', '250 ms', '1 s', '3.1 s', '250 s']
    >>> format_seconds(1.05, 3)
    '1.05 s'
    """
    if not seconds:
        return "0 s"
    for limit, unit, factor in ((1e-3, "µs", 1e6), (1.0, "ms", 1e3), (float("inf"), "s", 1.0)):
        if float(f"{seconds:.3g}") < limit:  # avoids 1000 ms
            value = seconds * factor
            is_long = value >= 10 ** (digits - 1)
            return f"{value:.0f} {unit}" if is_long else f"{value:.{digits}g} {unit}"
    return "∞"


def describe_tail_reader(executors: Sequence[str]) -> str:
    """Name the slots that may take a tail task; without executors, the slots of local mode.

    >>> print(describe_tail_reader(["1", "2"]), "or", describe_tail_reader([]))
    any free slot of executors 1, 2 or any free slot
    """
    noun = "executor" if len(executors) == 1 else "executors"
    return f"any free slot of {noun} {', '.join(executors)}" if executors else "any free slot"
