"""What is raised. The texts are those of the Rust library."""


class Error(Exception):
    """All errors of zsr."""


class NotFound(Error, LookupError):
    """No such system, flow or member, or none on this machine."""


class ControllerError(Error, ConnectionError):
    """The controller, or a host's agent, does not answer or refuses."""


class RingError(Error):
    """The ring can't be had: another program is at it, or it was closed."""


class SchemaError(Error, TypeError):
    """The flow's records are not what the program takes them for."""


class SizeError(Error, ValueError):
    """A record is too long, or has another size than the flow's."""


class RouteError(Error, ValueError):
    """The flow's routing, or the call, names no consumer that there is."""


class Ended(Error):
    """The flow has failed, ended or was deleted, or the member was taken out of it."""


class Lost(Error):
    """Records that were pushed before are lost with their consumer. The flow goes on: push the record of this call again."""


class Damaged(Error):
    """What came is damaged or not in order, and was passed over. Popping may go on."""


class Misuse(Error, RuntimeError):
    """The call does not go with those before it."""


class TimedOut(Error, TimeoutError):
    """No room, or no record, within the time given."""


class SumError(Error, OverflowError):
    """A sum of whole numbers that 64 bits can't hold."""


class StreamError(Error):
    """A stream was cancelled by its receiver, or given up by its sender. Other streams go on."""
