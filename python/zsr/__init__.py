"""Push and pop at the rings of a running system of zsr.

    with zsr.Producer("prices") as producer:
        producer.push_rows(table)

    with zsr.Consumer("prices") as consumer:
        for batch in consumer:
            rows = batch.numpy()

An object takes one call at a time (Misuse otherwise). Calls that wait let other threads run, and end with KeyboardInterrupt on Ctrl-C.
Times are seconds; None waits as long as it takes, 0 does not wait. After fork(), the child must not use objects of its parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _zsr
from ._buffers import _bytes
from ._errors import (
    ControllerError, Damaged, Ended, Error, Lost, Misuse, NotFound, RingError, RouteError, SchemaError, SizeError, StreamError,
    SumError, TimedOut,
)
from ._layouts import _array, _rows
from ._schema import dtype_of, schema_of
from ._streams import InStream, InStreams, OutStream, OutStreams
from ._zsr import Registered, Ticket, __version__, barrier

if TYPE_CHECKING:
    from os import PathLike

    import numpy as np
    import pyarrow as pa
    from typing_extensions import Buffer  # only for type checkers: typing's from Python 3.12 on

__all__ = [
    "Arrived", "Batch", "Combiner", "Consumer", "ControllerError", "Damaged", "Ended", "Error", "InStream", "InStreams", "LayoutConsumer", "Lost", "Misuse", "NotFound",
    "OutStream", "OutStreams", "Producer", "Registered", "RingError", "RouteError", "SchemaError", "SizeError", "StreamError", "SumError",
    "Ticket", "TimedOut", "barrier", "__version__",
]

# Arrow's data begins at multiples of this.
_ALIGNED = 64


class Producer(_zsr.Producer):
    """The pushing side of one member of a flow. With `with`, it closes at the end, or leaves when the block raises.

    `member`: which one; the first whose rings are free. `system`: of this machine; the only one. `controller`: HOST:PORT of one
    elsewhere, to which `certificate` is shown: NAME.pem, with NAME.key and ca.pem beside it (`zsr ca`). `schema`: what the program
    takes the records for, as text or dtype. `record_size`: bytes of each record, where the flow has no schema. `registered`: memory
    that lay_out() names. Raises NotFound, ControllerError, RingError, SchemaError.
    """

    def __new__(cls, flow: str, *, member: str | None = None, system: str | None = None, controller: str | None = None,
                certificate: str | PathLike[str] | None = None, record_size: int | None = None,
                schema: str | np.dtype | None = None, registered: Iterable[Registered] = ()) -> Producer:
        return super().__new__(cls, flow, member=member, system=system, controller=controller, certificate=certificate,
                               record_size=record_size, schema=schema_of(schema), registered=list(registered))

    @property
    def dtype(self) -> np.dtype | None:
        """The dtype of the flow's rows; None: it has no schema, or its records are text."""
        return dtype_of(self.schema)

    def push(self, record: Buffer | str, *, to: int | None = None, timeout: float | None = None) -> None:
        """Pushes one record, by the flow's routing or `to` a consumer, from 0; a copy of it. It is on its way when its item is full,
        or with flush(); at once in a flow with the hint `latency`. Raises TimedOut, SizeError, RouteError, Lost, Ended. The record was not taken then."""
        if not self.put(_bytes(record), to, timeout):
            raise TimedOut(f"no room in {timeout} s")

    def try_push(self, record: Buffer | str, *, to: int | None = None) -> bool:
        """As push(), if there is room now. Says whether the record was taken."""
        return self.put(_bytes(record), to, 0)

    def push_rows(self, rows: np.ndarray | Buffer, *, to: int | None = None, timeout: float | None = None) -> int:
        """Pushes rows that lie side by side: an array of the flow's dtype, or bytes. Says how many were taken: all, unless the time is
        over. Raises as push()."""
        if hasattr(rows, "dtype"):
            expected = self.dtype
            if expected is not None and rows.dtype != expected:
                raise SchemaError(f"rows of {rows.dtype}: the flow has tuples ({self.schema}), which is {expected}")
        return self.put_rows(_bytes(rows), to, timeout)

    def lay_out(self, columns: Iterable[np.ndarray], *, rows: np.ndarray | None = None, chosen: np.ndarray | None = None,
                to: int | None = None, timeout: float | None = None) -> Ticket:
        """Pushes rows of these columns as one item, without a copy: record n is row n of each column, side by side. The arrays lie in
        registered memory, at any stride, and must not change until was_taken(). `rows`: only those of these numbers, uint32 or uint64;
        `chosen`: only those whose bit is set (numpy.packbits with bitorder="little"). Both lie in registered memory, too. Several
        consumers: `to` one of them. docs/layouts.md. Raises TimedOut, ValueError, Misuse, Ended."""
        columns = list(columns)
        described = [_array(column, f"column {n}") for n, column in enumerate(columns)]
        ticket = self.put_layout(described, *_rows(columns, rows, chosen), to, timeout)
        if ticket is None:
            raise TimedOut(f"no room in {timeout} s")
        return ticket

    @contextmanager
    def in_place(self, length: int, *, to: int | None = None, timeout: float | None = None) -> Iterator[Room]:
        """Room in the ring for a record of at most `length` bytes, or for as many rows as the item takes of so many bytes of them; to be
        written through a memoryview or array of it, which has to be gone at the end of the block. Then `room.used` bytes are pushed,
        all if it was not set; nothing if the block raises. Raises as push()."""
        place = self.reserve(length, to, timeout)
        if place is None:
            raise TimedOut(f"no room in {timeout} s")
        room = Room(place)
        try:
            yield room
        except BaseException:
            # Arrays of the room may be part of what is raised; then the room is forgotten with them.
            try:
                place.forget()
            except BufferError:
                pass
            raise
        place.publish(room.used)

    def push_arrow(self, batch: pa.RecordBatch, *, to: int | None = None, timeout: float | None = None) -> None:
        """Pushes an Arrow batch as one record: it is written into the ring as Arrow IPC, once, and Batch.arrow() reads it there. The
        flow's items have to be large enough, and it has no schema of its own. Raises as push()."""
        import pyarrow as pa

        if self.record_size is not None:
            raise SchemaError(f"records of {self.record_size} B each carry no Arrow batches: take a flow without a schema")

        def write(sink: Any) -> None:
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)

        measured = pa.MockOutputStream()
        write(measured)
        size = measured.size()
        with self.in_place(size + _ALIGNED, to=to, timeout=timeout) as room:
            # Zeros in front, so that Arrow's data is aligned.
            gap = -room.address % _ALIGNED
            room.view()[:gap] = bytes(gap)
            sink = pa.FixedSizeBufferWriter(pa.py_buffer(room.view()[gap:gap + size]))
            write(sink)
            sink.close()
            del sink
            room.used = gap + size

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.leave()


class Room:
    """Room in the ring. `used`: how many of its bytes are pushed."""

    def __init__(self, place: _zsr.Place) -> None:
        self._place = place
        self.used = len(place)

    @property
    def address(self) -> int:
        """Of its first byte."""
        return self._place.address

    def __len__(self) -> int:
        return len(self._place)

    def view(self) -> memoryview:
        """Its bytes, to be written."""
        return memoryview(self._place)

    def numpy(self, dtype: Any = "u1") -> np.ndarray:
        """An array in the ring, to be written."""
        import numpy as np

        return np.frombuffer(memoryview(self._place), np.dtype(dtype))


class Consumer(_zsr.Consumer):
    """The popping side of one member of a flow. Iterating gives its batches until the end of the stream. With `with`, it leaves at the
    end of the block: what was not popped is for the next program.

    Arguments are those of Producer. Raises NotFound, ControllerError, RingError, SchemaError.
    """

    # Arrow schemas that came to the ring, by their numbers.
    _arrow_schemas: dict[bytes, bytes]

    def __new__(cls, flow: str, *, member: str | None = None, system: str | None = None, controller: str | None = None,
                certificate: str | PathLike[str] | None = None, schema: str | np.dtype | None = None) -> Consumer:
        consumer = super().__new__(cls, flow, member=member, system=system, controller=controller, certificate=certificate,
                                   schema=schema_of(schema))
        consumer._arrow_schemas = {}
        return consumer

    @property
    def dtype(self) -> np.dtype | None:
        """The dtype of the flow's rows; None: it has no schema, or its records are text."""
        return dtype_of(self.schema)

    def pop(self, timeout: float | None = None) -> Batch | None:
        """The next records, as many as came together; None at the end of the stream. Raises TimedOut, Ended, Damaged, and Misuse when
        the whole ring is held by batches that are still in use."""
        held = self.take(timeout)
        if held is not None:
            return Batch(held, self.schema, self._arrow_schemas)
        if self.ended:
            return None
        raise TimedOut(f"nothing came in {timeout} s")

    def try_pop(self) -> Batch | None:
        """The records that are there now; None: there are none, or, if `ended`, none will come. Raises as pop()."""
        held = self.take(0)
        return None if held is None else Batch(held, self.schema, self._arrow_schemas)

    def pop_newest(self, timeout: float | None = None) -> Batch | None:
        """The newest records: all that lie in front of them are popped unread. For who wants to know what is so now: the ring never
        fills, however late a program looks. The last record of the batch is the newest of all. Else as pop()."""
        held = self.take(timeout, newest=True)
        if held is not None:
            return Batch(held, self.schema, self._arrow_schemas)
        if self.ended:
            return None
        raise TimedOut(f"nothing came in {timeout} s")

    def combine(self, aggregates: str, *, group_by: str = "") -> np.ndarray:
        """Pops until the end of the stream, and gives aggregates of all rows, as Combiner does. Raises as pop(), SchemaError, SumError."""
        if self.schema is None:
            raise SchemaError("the flow has no schema: make a Combiner with one, and add() its batches")
        combiner = Combiner(self.schema, aggregates, group_by=group_by)
        for batch in self:
            with batch:
                combiner.add(batch)
        return combiner.numpy()

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = self.pop()
        if batch is None:
            raise StopIteration
        return batch

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    @staticmethod
    def most_urgent(consumers: Iterable[Consumer], timeout: float | None = None) -> Consumer | None:
        """The first of these consumers, the most urgent first, that has records: its next pop gives them without waiting. None at the end
        of all streams. Waits as long as it takes, or for `timeout` seconds. Raises TimedOut, Damaged, Misuse; Ended of a flow that has
        failed: leave its consumer out of the next call."""
        consumers = list(consumers)
        at = _zsr.Consumer.first(consumers, timeout)
        if at is None:
            raise TimedOut(f"nothing came in {timeout} s")
        return consumers[at] if at < len(consumers) else None


class Batch:
    """Records where they lie in the ring. Their memory is given back when the batch, and all arrays and memoryviews of it, are gone, or
    with release(). Several batches can be held at a time; while the whole ring is, no more can be popped."""

    def __init__(self, held: _zsr.Held, schema: str | None, schemas: dict[bytes, bytes] | None = None) -> None:
        self._held, self._schema = held, schema
        # Arrow schemas that came to the ring, by their numbers.
        self._schemas = {} if schemas is None else schemas

    def __len__(self) -> int:
        return self._held.records

    @property
    def record_size(self) -> int | None:
        """Bytes of each record; None: they differ in length."""
        return self._held.record_size

    def __iter__(self) -> Iterator[memoryview]:
        """The records, each a memoryview into the ring."""
        view, at = memoryview(self._held), 0
        for _ in range(len(self)):
            length = self.record_size
            if length is None:
                length, at = int.from_bytes(view[at:at + 4], "little"), at + 4
            if at + length > len(view):
                raise Damaged("a batch says of a record that it is longer than the batch")
            yield view[at:at + length]
            at += length

    def numpy(self, dtype: Any = None) -> np.ndarray:
        """The rows as a read-only array in the ring, of the flow's dtype or this one; nothing is copied."""
        import numpy as np

        if self.record_size is None:
            raise SchemaError("records of any length are no rows: iterate over the batch")
        dtype = np.dtype(dtype) if dtype is not None else dtype_of(self._schema) or np.dtype(f"V{self.record_size}")
        if dtype.itemsize != self.record_size:
            raise SchemaError(f"rows of {self.record_size} B are no {dtype}, which has {dtype.itemsize} B")
        return np.frombuffer(memoryview(self._held), dtype)

    def arrow(self) -> pa.RecordBatch:
        """An Arrow batch. What push_arrow() has pushed is read in the ring, and not copied; there has to be one in this batch
        (arrow_batches() gives several). Rows become columns, each copied once: Arrow has no columns with gaps (arrow_rows() does not
        copy)."""
        import numpy as np
        import pyarrow as pa

        if self.record_size is None:
            batches = list(self.arrow_batches())
            if len(batches) != 1:
                raise SchemaError(f"{len(batches)} Arrow batches came together: take arrow_batches()")
            return batches[0]
        rows = self.numpy()
        if rows.dtype.names is None:
            return pa.RecordBatch.from_arrays([self.arrow_rows()], ["row"])
        columns = [pa.array(np.ascontiguousarray(rows[name])) for name in rows.dtype.names]
        return pa.RecordBatch.from_arrays(columns, list(rows.dtype.names))

    def arrow_batches(self) -> Iterator[pa.RecordBatch]:
        """What push_arrow() has pushed, or a Rust program's zsr_arrow::Sender (docs/arrow.md), read in the ring: nothing is copied but
        dictionaries of the latter. Damaged: rows came whose schema did not."""
        import pyarrow as pa

        for record in self:
            if bytes(record[:4]) == b"ZARW":
                yield from self._sent_batches(record)
                continue
            begin = next((i for i in range(min(_ALIGNED, len(record))) if record[i]), 0)
            yield from pa.ipc.open_stream(pa.py_buffer(record[begin:]))

    def _sent_batches(self, record: memoryview) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if len(record) < 12 or record[4] != 1 or record[5] > 1:
            raise Damaged("an Arrow record of a version or kind that is not known here")
        begin, number = int.from_bytes(record[6:8], "little"), bytes(record[8:12])
        if record[5] == 0:
            self._schemas[number] = bytes(record[begin:])
            return
        if number not in self._schemas:
            raise Damaged("Arrow rows came whose schema did not come to this ring")
        schema, messages = self._schemas[number], pa.py_buffer(record[begin:])
        first = pa.ipc.read_message(messages)
        if first.type == "record batch":
            yield pa.ipc.read_record_batch(first, pa.ipc.read_schema(pa.py_buffer(schema)))
        else:
            yield from pa.ipc.open_stream(pa.py_buffer(schema + messages.to_pybytes()))

    def arrow_rows(self) -> pa.FixedSizeBinaryArray:
        """The rows as one Arrow array of binary values in the ring; nothing is copied."""
        import pyarrow as pa

        if self.record_size is None:
            raise SchemaError("records of any length are no rows: iterate over the batch")
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(self.record_size), len(self), [None, pa.py_buffer(self._held)])

    def release(self) -> None:
        """Gives the memory back now. BufferError while arrays or memoryviews of it are there."""
        self._held.release()

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Arrived(NamedTuple):
    """An item whose records are where its layout says: who pushed it, how many records and bytes it had, and the last of these bytes, for
    which the layout had no room (mostly none)."""

    producer: int
    records: int
    length: int
    rest: bytes


class LayoutConsumer(_zsr.LayoutConsumer):
    """The popping side of one member of a flow, which says where records go before they come: docs/layouts.md. With `with`, it leaves at
    the end.

    `registered`: the memory that place() names. The others as of Consumer. Raises NotFound, ControllerError, RingError, Misuse.
    """

    def __new__(cls, flow: str, registered: Iterable[Registered], *, member: str | None = None, system: str | None = None,
                controller: str | None = None, certificate: str | PathLike[str] | None = None) -> LayoutConsumer:
        return super().__new__(cls, flow, list(registered), member=member, system=system, controller=controller, certificate=certificate)

    def place(self, columns: Iterable[np.ndarray], *, rows: np.ndarray | None = None, chosen: np.ndarray | None = None) -> bool:
        """Says where the records go of the next item that has no place yet: record n to row n of each column, side by side. Columns, `rows`
        and `chosen` are as of Producer.lay_out(), and belong to the NIC until the item was popped. False: as many are placed as the ring
        has items. Does not wait. Raises ValueError, Misuse."""
        columns = list(columns)
        described = [_array(column, f"column {n}") for n, column in enumerate(columns)]
        return self.put_place(described, *_rows(columns, rows, chosen))

    def pop(self, timeout: float | None = None) -> Arrived | None:
        """The next item, whose records are where its layout says; None at the end of the stream: all producers have closed, and all is popped.
        Raises TimedOut, Ended, Damaged, Misuse (no layout is placed for the item, which stays)."""
        came = self.take(timeout)
        if came is None and not self.ended:
            raise TimedOut(f"nothing came in {timeout} s")
        return None if came is None else Arrived(*came)

    def __enter__(self) -> LayoutConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


class Combiner(_zsr.Combiner):
    """Aggregates of rows by group, computed where the rows lie; what is kept is one row per group.

    `schema`: of the rows, as text or dtype. `aggregates`: count, sum(COLUMN), min(COLUMN), max(COLUMN), avg(COLUMN), with commas between
    them. `group_by`: columns of whole numbers or bytes; none: all rows are one group. Raises SchemaError.
    """

    def __new__(cls, schema: str | np.dtype, aggregates: str, *, group_by: str = "") -> Combiner:
        return super().__new__(cls, schema_of(schema) or "", aggregates, group_by)

    def add(self, rows: np.ndarray | Buffer | Batch) -> None:
        """Takes rows that lie side by side: an array, bytes, or a batch. Raises SizeError."""
        if isinstance(rows, Batch):
            if rows.record_size is None:
                raise SchemaError("records of any length are no rows")
            super().add(memoryview(rows._held))
        else:
            super().add(_bytes(rows))

    def numpy(self) -> np.ndarray:
        """A row per group, in their order: the columns of the group, then the aggregates, called `count`, `sum_COLUMN` and so on. Raises
        SumError."""
        import numpy as np

        return np.frombuffer(self.results(), dtype_of(self.schema))
