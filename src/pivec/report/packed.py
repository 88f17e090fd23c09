"""Columns of numbers and texts, deflated, as text in the page; `web/data.js` reads them back.

Numbers are little-endian, the first bytes of all before the second bytes of all and so on: bytes
that are alike pack well. A text column is its lines.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pivec.terminal import printable

Column = dict[str, Any]


def numbers(values: ArrayLike, kind: str) -> Column:
    r"""Pack numbers of one kind: u1, u2, i4, f4 or f8.

    Examples
    --------
    >>> column = numbers([1, 2, 259], "u2")
    >>> column["type"], zlib.decompress(base64.b64decode(column["data"]))
    ('u2', b'\x01\x02\x03\x00\x00\x01')
    """
    return {"type": kind, "data": base64.b64encode(deflated(values, kind)).decode("ascii")}


def text(lines: Iterable[str]) -> Column:
    """Pack texts, a line each; what could break a line is made visible."""
    content = zlib.compress("\n".join(map(printable, lines)).encode())
    return {"type": "text", "data": base64.b64encode(content).decode("ascii")}


def deflated(values: ArrayLike, kind: str) -> bytes:
    """Deflate the bytes of numbers, the first of all, then the second of all."""
    array = np.asarray(values).astype(np.dtype(kind).newbyteorder("<")).ravel()
    return zlib.compress(array.view(np.uint8).reshape(-1, array.itemsize).T.tobytes())


def unpacked(column: Column) -> Any:
    """Read a column back: an array, or a list of texts."""
    content = zlib.decompress(base64.b64decode(column["data"]))
    if column["type"] == "text":
        return content.decode().split("\n")
    dtype = np.dtype(column["type"]).newbyteorder("<")
    planes = np.frombuffer(content, np.uint8).reshape(dtype.itemsize, -1)
    return np.ascontiguousarray(planes.T).view(dtype).ravel()


def size_of(blob: Any) -> int:
    """Count the letters of all columns in a blob, which are nearly all of it."""
    if isinstance(blob, dict):
        return sum(map(size_of, blob.values()))
    if isinstance(blob, list):
        return sum(map(size_of, blob))
    return len(blob) if isinstance(blob, str) else 8
