"""Reads the server's JSON with types. What does not fit is a `ServerError`, never a KeyError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Optional, TypeVar

from .exceptions import ServerError

T = TypeVar("T")


def bad_answer(what: str) -> ServerError:
    """The error for an answer that is not of the agreed shape."""
    return ServerError(
        f"The server's answer is not understood: {what}.",
        code="client.bad_answer",
        hint="Is this really a PandaStack server, and not a proxy or another program?",
    )


class Fields:
    """One JSON object. A field that is null counts as absent; one without a default must be there."""

    def __init__(self, data: object, what: str) -> None:
        if not isinstance(data, Mapping):
            raise bad_answer(f"{what} is not a JSON object")
        self._data = data
        self._what = what

    def text(self, name: str, default: Optional[str] = None) -> str:
        value: str = self._get(name, (str,), default)
        return value

    def flag(self, name: str, default: Optional[bool] = None) -> bool:
        value: bool = self._get(name, (bool,), default)
        return value

    def integer(self, name: str, default: Optional[int] = None) -> int:
        value: int = self._get(name, (int,), default)
        return value

    def number(self, name: str, default: Optional[float] = None) -> float:
        return float(self._get(name, (int, float), default))

    def mapping(self, name: str) -> dict[str, Any]:
        value: dict[str, Any] = self._get(name, (dict,), {})
        return value

    def items(self, name: str, parse: Callable[[object], T]) -> list[T]:
        return [parse(item) for item in self._get(name, (list,), [])]

    def item(self, name: str, parse: Callable[[object], T]) -> T:
        return parse(self._get(name, (dict,), None))

    def optional(self, name: str, parse: Callable[[object], T]) -> Optional[T]:
        value = self._data.get(name)
        return None if value is None else parse(value)

    def _get(self, name: str, kinds: tuple[type, ...], default: Any) -> Any:
        value = self._data.get(name)
        if value is None:
            value = default
        # bool is an int to Python, but not to JSON.
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise bad_answer(
                f"'{name}' of {self._what} is {'missing' if value is None else 'of a wrong type'}"
            )
        return value
