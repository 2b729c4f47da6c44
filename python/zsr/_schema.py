"""Schemas of flows as numpy dtypes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ._errors import SchemaError

if TYPE_CHECKING:
    import numpy as np


def dtype_of(schema: str | None) -> np.dtype | None:
    """The dtype of a flow's rows: packed, least significant byte first. None: there is no schema, or its records are text."""
    import numpy as np

    fields = []
    for column in (schema or "").split(","):
        name, _, kind = (part.strip() for part in column.partition(":"))
        if re.fullmatch(r"[iuf]\d+", kind):
            fields.append((name, f"<{kind[0]}{int(kind[1:]) // 8}"))
        elif width := re.fullmatch(r"bytes\((\d+)\)", kind):
            fields.append((name, f"S{width[1]}"))
        else:
            return None
    return np.dtype(fields)


def schema_of(schema: str | np.dtype | None) -> str | None:
    """A dtype as a schema; text stays."""
    if schema is None or isinstance(schema, str):
        return schema
    import numpy as np

    dtype = np.dtype(schema)
    if dtype.names is None or dtype.fields is None:
        raise SchemaError(f"the dtype {dtype} has no columns: expected a structured dtype, or a schema as text")
    columns, end = [], 0
    for name in dtype.names:
        column, offset = dtype.fields[name][:2]
        if offset != end:
            raise SchemaError(f"the dtype {dtype} has gaps or an order of its own: rows of a flow are packed, column by column")
        if column.byteorder == ">" or column.kind not in "iufSV" or column.subdtype is not None or column.name == "float16":
            raise SchemaError(f"column `{name}`: {column} is no type of a flow: expected i1 to i8, u1 to u8, f4, f8 (little-endian), S or V")
        bits = column.itemsize * 8
        columns.append(f"{name}: bytes({column.itemsize})" if column.kind in "SV" else f"{name}: {column.kind}{bits}")
        end = offset + column.itemsize
    return ", ".join(columns)
