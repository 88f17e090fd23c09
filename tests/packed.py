"""Reads the columns of the page's data back, as `web/data.ts` does."""

from __future__ import annotations

import base64
import zlib

import numpy as np


def unpacked(column):
    """Read a column back: an array, or a list of texts."""
    content = zlib.decompress(base64.b64decode(column["data"]))
    if column["type"] == "text":
        return content.decode().split("\n")
    dtype = np.dtype(column["type"]).newbyteorder("<")
    planes = np.frombuffer(content, np.uint8).reshape(dtype.itemsize, -1)
    return np.ascontiguousarray(planes.T).view(dtype).ravel()
