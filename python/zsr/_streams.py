"""Many streams over one flow, each with an end, a cancellation and a window of its own (docs/streams.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import _zsr
from ._buffers import _bytes
from ._errors import TimedOut

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Buffer


class OutStreams(_zsr.StreamProducer):
    """Streams from one producer of `flow`, answered by `answers`: a shuffle the other way round. With `with`, it closes at the end of the
    block, which waits until each consumer has read to the end; or gives the flow up when the block raises.

    Other arguments are those of Producer. Raises NotFound, ControllerError, RingError, SchemaError.
    """

    def __new__(cls, flow: str, answers: str, *, member: str | None = None, system: str | None = None,
                controller: str | None = None, certificate: str | PathLike[str] | None = None) -> OutStreams:
        return super().__new__(cls, flow, answers, member=member, system=system, controller=controller, certificate=certificate)

    def open(self, name: str | Buffer, to: int = 0) -> OutStream:
        """A stream of this name, which may be any bytes, to the consumer with the number `to`. The receiver sees it with its first record.
        Raises RouteError, SizeError, Ended."""
        return OutStream(self.start(_bytes(name), to))

    def __enter__(self) -> OutStreams:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class OutStream:
    """A stream that goes out. With `with`, it ends at the end of the block, or is given up when the block raises."""

    def __init__(self, stream: _zsr.Outgoing) -> None:
        self._stream = stream

    def push(self, record: Buffer | str, timeout: float | None = None) -> None:
        """Pushes a record, waiting as long as the receiver has no room. It may be longer than the flow's items. It may stay in an item that is
        not full until flush() or end(). Raises StreamError when the receiver wants no more; TimedOut, Ended. The record was not taken then."""
        if not self._stream.put(_bytes(record), timeout):
            raise TimedOut(f"no room in {timeout} s")

    def flush(self) -> None:
        """Has all that was pushed go now. Raises Ended."""
        self._stream.flush()

    def end(self) -> None:
        """Ends the stream. Raises StreamError when the receiver wanted no more; Ended."""
        self._stream.end()

    def abort(self, why: str) -> None:
        """Gives the stream up: its receiver is told why. Raises Ended."""
        self._stream.abort(why)

    def __enter__(self) -> OutStream:
        return self

    def __exit__(self, kind: object, error: object, _: object) -> None:
        if kind is None:
            self.end()
        else:
            self.abort(str(error) or "its sender has failed")


class InStreams(_zsr.StreamConsumer):
    """Streams that come to one consumer of `flow`, answered by `answers`: a shuffle the other way round. Iterating accepts streams until all
    senders have closed.

    `window`: bytes of one stream that wait here, at most, and the longest record (64 KiB or more; 256 KiB). `most`: streams that are open,
    at most (1024). Other arguments are those of Consumer. Raises NotFound, ControllerError, RingError, SchemaError, Misuse.
    """

    def __new__(cls, flow: str, answers: str, *, window: int | None = None, most: int | None = None, member: str | None = None,
                system: str | None = None, controller: str | None = None,
                certificate: str | PathLike[str] | None = None) -> InStreams:
        return super().__new__(cls, flow, answers, window=window, most=most, member=member, system=system, controller=controller,
                               certificate=certificate)

    def accept(self, timeout: float | None = None) -> InStream | None:
        """The next stream that a sender has opened; None when all senders have closed. Raises TimedOut, Ended, Damaged."""
        found = self.next_stream(timeout)
        if found is None:
            raise TimedOut(f"no stream came in {timeout} s")
        return InStream(found[0]) if found else None

    def __iter__(self) -> Iterator[InStream]:
        return self

    def __next__(self) -> InStream:
        stream = self.accept()
        if stream is None:
            raise StopIteration
        return stream

    def __enter__(self) -> InStreams:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InStream:
    """A stream that comes in. Iterating gives its records, which are bytes, until its end."""

    def __init__(self, stream: _zsr.Incoming) -> None:
        self._stream, self._name = stream, stream.name

    @property
    def name(self) -> bytes:
        """The name that its sender has given it."""
        return self._name

    def pop(self, timeout: float | None = None) -> bytes | None:
        """The next record; None at the stream's end. Raises StreamError when the sender has given it up, behind all records; TimedOut,
        Ended, Damaged."""
        found = self._stream.next_record(timeout)
        if found is None:
            raise TimedOut(f"nothing came in {timeout} s")
        return found[0] if found else None

    def cancel(self, why: str | None = None) -> None:
        """Wants no more of the stream: its sender is told why."""
        self._stream.cancel(why)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        record = self.pop()
        if record is None:
            raise StopIteration
        return record

    def __enter__(self) -> InStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
