"""Work in a thread beside the main one."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

__all__ = ["beside"]

T = TypeVar("T")


def beside(call: Callable[[], T]) -> Callable[[], T]:
    """Start ``call`` in a thread and return what waits for its result, or raises what it raised.

    The thread ends with the process: unlike an executor's it keeps nobody waiting after an interrupt.
    """
    found: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.append(call())
        except BaseException as error:
            failed.append(error)

    def result() -> T:
        thread.join()
        if failed:
            raise failed[0]
        return found[0]

    thread = Thread(target=work, daemon=True)
    thread.start()
    return result
