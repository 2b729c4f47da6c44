"""Guests with a soft-RoCE NIC under QEMU: boot, run commands, end. No root, no hardware virtualisation."""
import os, re, socket, subprocess, time

PATIENCE = 600  # seconds for whatever takes some on an idle machine; a guest is up there in 3 to 8
AGENT = 7000  # port of the host agent in every guest


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Command:
    """A command that runs in a guest; its output can be waited for. Its input ends behind `stdin`, or with `end_input`."""

    def __init__(self, port, line, stdin=b"", ends=True):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.send(line.encode() + b"\n" + stdin)
        if ends:
            self.end_input()

    def send(self, stdin):
        self.socket.sendall(stdin)

    def end_input(self):
        self.socket.shutdown(socket.SHUT_WR)

    def wait(self, timeout=PATIENCE):
        """Status and output; raises TimeoutError."""
        until, text = time.monotonic() + timeout, b""
        while True:
            self.socket.settimeout(max(until - time.monotonic(), 0.01))
            part = self.socket.recv(65536)
            if not part:
                break
            text += part
        end = re.search(rb"\nRC=(\d+)\n$", text)
        status = int(end.group(1)) if end else 255
        return status, (text[: end.start()] if end else text).decode(errors="replace")


class Guest:
    """One guest. Its NIC's cable is a pair of AF_UNIX datagram sockets: `cable` is the guest's end, `far` the other. `devices`: what
    else QEMU is to have."""

    def __init__(self, image, folder, name, ip, mac, mtu, devices=()):
        self.name, self.ip, self.mac = name, ip, mac
        self.command_port, self.agent_port = free_port(), free_port()
        self.cable, self.far = os.path.join(folder, name + ".nic"), os.path.join(folder, name + ".switch")
        self.console = os.path.join(folder, name + ".console")
        forward = f"hostfwd=tcp:127.0.0.1:{self.command_port}-10.0.2.15:2323"
        forward += f",hostfwd=tcp:127.0.0.1:{self.agent_port}-10.0.2.15:{AGENT}"
        plain = "csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ufo=off"
        plain += ",host_tso4=off,host_tso6=off,host_ufo=off"
        # yapf: disable
        self.process = subprocess.Popen([
            "qemu-system-x86_64", "-name", name, "-M", "pc", "-accel", "tcg,thread=multi", "-cpu", "qemu64", "-m", "384",
            "-nodefaults", "-display", "none", "-no-reboot", "-serial", "file:" + self.console,
            "-kernel", os.path.join(image, "vmlinux"), "-initrd", os.path.join(image, "initramfs.cpio"),
            # Without its timer check, as an emulator that gets little time fails it.
            "-append", "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check "
                       f"zsr.ip={ip}/16 zsr.mtu={mtu} zsr.name={name}",
            "-netdev", f"dgram,id=n0,local.type=unix,local.path={self.cable},remote.type=unix,remote.path={self.far}",
            "-device", f"virtio-net-pci,netdev=n0,mac={mac},addr=0x3,romfile=,{plain}",
            "-netdev", f"user,id=m0,restrict=on,{forward}",
            "-device", "virtio-net-pci,netdev=m0,addr=0x4,romfile=", *devices,
        ], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(self.console + ".qemu", "w"))

    def log(self):
        parts = [open(p, errors="replace").read() for p in (self.console, self.console + ".qemu") if os.path.exists(p)]
        return "\n".join(parts)[-3000:]

    def answers(self):
        """Whether commands are taken; QEMU takes connections before the guest listens, and resets them."""
        try:
            return "GUEST-READY" in self.log() and self.run("true")[0] == 0
        except OSError:
            return False

    def wait_ready(self):
        until = time.monotonic() + PATIENCE
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"guest {self.name} did not come up:\n{self.log()}")
            time.sleep(0.1)

    def popen(self, line, stdin=b"", ends=True):
        return Command(self.command_port, line, stdin, ends)

    def run(self, line, stdin=b"", timeout=PATIENCE):
        return self.popen(line, stdin).wait(timeout)

    def counter(self, name):
        """What the guest's NIC has counted, as the kernel shows it."""
        return int(self.run(f"cat /sys/class/infiniband/rxe0/ports/1/hw_counters/{name}")[1])

    def end(self):
        self.process.kill()
        self.process.wait()
