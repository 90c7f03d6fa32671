"""Values that a library keeps in its own way, as Python's, one level at a time.

A value can be as large as the memory: a list of millions in one cell, a text of
a gigabyte. So what is inside is not converted with it but when it is asked for,
and never more of it than is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import MAXYEAR, MINYEAR
from itertools import islice
from typing import Any

MAX_STRING = 1000  # characters that are shown
MAX_ITEMS = 100  # of a list or dict that is a value

_SOME = MAX_ITEMS + 1  # by the last one it is known that there are more
_SOME_TEXT = MAX_STRING + 1
_FINER_THAN_PYTHONS = ("ns]", "ps]", "fs]", "as]")  # units of dates of NumPy


def opened(value: Any) -> Any:
    """An iterator of what is in a list, a dict, or a plain value.

    There is about as much of it as is shown. What is in a list or dict may want to
    be opened in turn. A value that is Python's own is itself.
    """
    module = type(value).__module__.partition(".")[0]
    if module in _OPENERS:  # then it is imported
        return _OPENERS[module](value)
    if not hasattr(value, "tolist"):
        return value
    # NumPy, and what is like it.
    dimensions = getattr(value, "ndim", 0)
    some = value[:_SOME] if dimensions else value
    names = getattr(getattr(value, "dtype", None), "names", None)
    if isinstance(names, tuple):  # records
        return iter(some if dimensions else [value[name] for name in names[:_SOME]])
    return iter(some) if dimensions > 1 else as_python(some)


def as_python(value: Any) -> Any:
    """value.tolist(), which of NumPy's dates and durations makes integers where
    Python has no such value, or none so fine."""
    if type(value).__module__ != "numpy" or value.dtype.kind not in "mM":
        return value.tolist()
    is_fine = value.dtype.str.endswith(_FINER_THAN_PYTHONS)
    near = value.astype(f"{value.dtype.kind}8[us]") if is_fine else value
    made = near.tolist()
    if not value.ndim:
        return str(value) if type(made) is int else made
    return [str(v) if type(m) is int else m for v, m in zip(value, made, strict=True)]


def _of_pyarrow(value: Any) -> Any:
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        some, kind = value[:_SOME], value.type
        is_number = pa.types.is_primitive(kind) and not pa.types.is_temporal(kind)
        # Else one by one: the scalar of a text, or of a struct with one, copies it all.
        return iter(some.to_pylist() if is_number else some)
    if not isinstance(value, pa.Scalar):
        return value
    return _of_scalar(pa, value) if value.is_valid else None


def _of_scalar(pa: Any, scalar: Any) -> Any:
    if isinstance(scalar, pa.MapScalar):  # its keys are any values, not always unique
        return ((pair[0], pair[1]) for pair in scalar.values[:_SOME])
    if isinstance(scalar, pa.ListScalar):
        return _of_pyarrow(scalar.values)
    if isinstance(scalar, pa.StructScalar):
        return dict(islice(scalar.items(), _SOME))
    if isinstance(scalar, pa.BinaryScalar):
        start = scalar.as_buffer()[: 4 * _SOME_TEXT].to_pybytes()
        is_text = isinstance(scalar, pa.StringScalar)
        return start.decode("utf-8", "replace") if is_text else start
    inner = getattr(scalar, "value", None)
    if isinstance(inner, pa.Scalar) and (
        not isinstance(scalar, pa.ExtensionScalar) or pa.types.is_nested(inner.type)
    ):
        return inner  # of a dictionary, of a run, of a union, of a tensor
    return _plain(pa, scalar)


def _plain(pa: Any, scalar: Any) -> Any:
    """Its text if Python has no such value, or only pandas has, which is not there."""
    try:
        return scalar.as_py()
    except Exception:
        return str(scalar.cast(pa.string()).as_py())


def _of_polars(value: Any) -> Any:
    import polars as pl  # type: ignore[import-untyped,import-not-found,unused-ignore]

    if not isinstance(value, pl.Series):
        return value
    some = value.head(_SOME)
    if some.dtype == pl.Struct:
        return iter(_records(some))
    if some.dtype in (pl.Date, pl.Datetime):
        return _dates(some)
    if some.dtype == pl.String:
        some = some.str.slice(0, _SOME_TEXT)
    elif some.dtype == pl.Binary and hasattr(some.bin, "slice"):  # newer ones have it
        some = some.bin.slice(0, _SOME_TEXT)
    return iter(some)  # lists in it are series


def _dates(dates: Any) -> Iterator[Any]:
    """Asked for a date that Python has not, polars panics, with a trace on stderr."""
    known = dates.dt.year().is_between(MINYEAR, MAXYEAR).fill_null(False)
    made = iter(dates.filter(known))
    for is_known, number in zip(known, dates.to_physical(), strict=True):
        if is_known:
            yield next(made)
        else:
            yield None if number is None else f"<value out of range: {number}>"


def _records(structs: Any) -> list[dict[str, Any] | None]:
    fields = structs.struct.unnest().get_columns()[:_SOME]
    columns = {field.name: list(opened(field)) for field in fields}
    return [
        None if missing else {name: values[i] for name, values in columns.items()}
        for i, missing in enumerate(structs.is_null())
    ]


_OPENERS: dict[str, Callable[[Any], Any]] = {
    "pyarrow": _of_pyarrow,
    "polars": _of_polars,
}
