"""Arrays as columns of a layout."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def _array(array: np.ndarray, what: str) -> tuple[int, int, int]:
    """Address, bytes from row to row, bytes of a row."""
    if array.ndim == 0:
        raise ValueError(f"{what} has no rows: expected an array of one dimension or more")
    width = array.itemsize * prod(array.shape[1:])
    if len(array) > 0 and not array[0].flags.c_contiguous:
        raise ValueError(f"{what}: the bytes of a row have to lie side by side")
    if array.strides[0] < 0:
        raise ValueError(f"{what} runs backwards in memory (its stride is {array.strides[0]} B)")
    return array.__array_interface__["data"][0], array.strides[0], width


def _rows(
    columns: list[np.ndarray], rows: np.ndarray | None, chosen: np.ndarray | None
) -> tuple[str, int, tuple[int, int, int] | None]:
    """Which rows: the kind, how many, and by what."""
    lengths = {len(column) for column in columns}
    if rows is not None:
        if chosen is not None:
            raise ValueError("rows and chosen: expected one of them")
        if rows.ndim != 1 or rows.dtype.kind != "u" or rows.itemsize not in (4, 8) or not rows.flags.c_contiguous:
            raise ValueError(f"rows: expected uint32 or uint64 numbers side by side, not {rows.dtype} of {rows.ndim} dimensions")
        return "rows", len(rows), _array(rows, "rows")
    if len(lengths) != 1:
        raise ValueError(f"columns of {sorted(lengths)} rows: expected one length")
    count = lengths.pop()
    if chosen is None:
        return "all", count, None
    if chosen.ndim != 1 or chosen.dtype != "u1" or not chosen.flags.c_contiguous or len(chosen) * 8 < count:
        raise ValueError(f"chosen: expected a bit per row, {-(-count // 8)} bytes of uint8 (numpy.packbits with bitorder='little')")
    return "chosen", count, _array(chosen, "chosen")
