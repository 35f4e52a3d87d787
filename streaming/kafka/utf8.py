"""Text that UTF-8 can write: librdkafka takes no other, and may end the process for it."""

from __future__ import annotations


def is_utf8(text: str) -> bool:
    r"""Whether no half of a character (an unpaired surrogate) is in a text.

    >>> is_utf8("grün"), is_utf8("gr\udcfc")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def join_surrogates(text: str) -> str:
    r"""Join the halves of characters that Java's escapes give; one without its other half stays.

    >>> join_surrogates("\ud83d\ude00")
    '😀'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
