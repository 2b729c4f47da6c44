"""The example server of crates/soft-switch as a child process: frames in and out over pipes."""

import queue
import subprocess
import threading


class SwitchProcess:
    """Runs BINARY on a free loopback port; `address` is where it listens."""

    def __init__(self, binary):
        self.process = subprocess.Popen(
            [binary, "127.0.0.1:0", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        first = self.process.stdout.readline().strip()
        assert first.startswith("listening on "), f"no address but {first!r}"
        self.address = first.removeprefix("listening on ")
        self.frames = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            port, frame = line.split()
            self.frames.put((int(port), bytes.fromhex(frame)))

    def send(self, port, frame):
        """A frame comes in."""
        print(port, frame.hex(), file=self.process.stdin, flush=True)

    def receive(self):
        """The next frame that leaves: port and bytes."""
        return self.frames.get(timeout=30)

    def close(self):
        """Ends it, and checks that it ends well."""
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0, "the server failed"


def ethernet(dst, src, kind, payload=bytes(46)):
    return dst.to_bytes(6, "big") + src.to_bytes(6, "big") + kind.to_bytes(2, "big") + payload
