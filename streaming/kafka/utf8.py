"""Check and repair text: librdkafka may abort the process if text is not valid UTF-8."""

from __future__ import annotations


def is_utf8(text: str) -> bool:
    r"""Return whether the text can be encoded as UTF-8, which an unpaired surrogate prevents.

    >>> is_utf8("grün"), is_utf8("gr\udcfc")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def join_surrogates(text: str) -> str:
    r"""Join surrogate pairs, as written in Java's escapes; keep unpaired surrogates.

    >>> join_surrogates("\ud83d\ude00")
    '😀'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
