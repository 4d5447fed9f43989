"""Text of a table from its bytes, in the encodings that spreadsheets and loggers write."""

from __future__ import annotations

import codecs

from invlift.errors import InputError

_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def decoded(content: bytes, name: str) -> tuple[str, list[str]]:
    """Decode the text of a table; also return a note on its encoding if it is not UTF-8.

    A byte order mark gives the encoding and is removed.  Without one, text with zeros in many of
    the odd or even bytes is UTF-16.  Text that is not valid UTF-8 is Windows-1252, in which digits
    have the same bytes.

    Raises
    ------
    InputError
        If the text is in none of these encodings, or has control characters.
    """
    if content[:2] in _UTF_16:
        tries = [("utf-16", "UTF-16")]
    elif content[1:200:2].count(0) > len(content[:200]) // 4:
        tries = [("utf-16-le", "UTF-16")]
    elif content[:200:2].count(0) > len(content[:200]) // 4:
        tries = [("utf-16-be", "UTF-16")]
    else:
        tries = [("utf-8-sig", ""), ("cp1252", "Windows-1252")]
    for encoding, what in tries:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if not any(mark in text for mark in map(chr, (*range(9), *range(14, 28), 127))):
            return text, [f"text in {what}"] if what else []
    found = "bytes that are not text"
    raise InputError(name, "a table of text", found, "save it as CSV in UTF-8") from None
