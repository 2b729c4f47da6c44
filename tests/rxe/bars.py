#!/usr/bin/env python3
"""bars.py IMAGE: rings in windows of PCI devices. A guest has two ivshmem devices, whose BAR 2 is a file here: what the guest's
processors store there is read from these files, behind the guest's back."""
import os, struct, sys, tempfile
from guests import Guest
from peers import AT, Failed

ADDRESSES, SIZE, ITEM, RING = ("0000:00:05.0", "0000:00:06.0"), 1 << 20, 1024, 64 << 10
KINDS = (f"pci:{ADDRESSES[0]}:2:uc", f"pci:{ADDRESSES[1]}:2:wc")
# Timeouts are long: an emulated machine does all of it.
TOPOLOGY = ("name: bars\nswitches: [{name: s1, tick: 1ms}]\nhosts:\n"
            + "".join(f"  - {{name: h{n}, memory: '{kind}'}}\n" for n, kind in enumerate(KINDS, 1)) + "  - h3\nflows: []\n")
SHAPE = f"--item-size {ITEM} --poll-interval 2ms --poll-timeout 200ms --rto 200ms"
ROWS = "".join(f"row {n} of those that cross two devices\n" for n in range(20000)).encode()


def bars(image, folder):
    files, devices = [os.path.join(folder, f"window{n}") for n in (1, 2)], []
    for n, path in enumerate(files):
        devices += ["-object", f"memory-backend-file,id=w{n},share=on,mem-path={path},size={SIZE}",
                    "-device", f"ivshmem-plain,memdev=w{n},addr={5 + n:#x}"]
    guest = Guest(image, folder, "h9", "10.0.1.9", "02:00:00:01:00:09", 1500, devices)
    try:
        guest.wait_ready()
        in_guest(guest, files)
    finally:
        guest.end()


def in_guest(guest, files):
    def zsr(line, stdin=b""):
        return guest.run(f"{AT} zsr {line}", stdin)

    def done(line, stdin=b""):
        status, said = zsr(line, stdin)
        if status != 0:
            raise Failed(f"zsr {line}: {status}: {said}\n{zsr('events')[1]}")
        return said

    def refused(what, line, *words):
        status, said = zsr(line)
        if status == 0 or not all(w in said for w in words):
            raise Failed(f"{what}: expected an error with {words}, got {status}: {said}")
        print(f"OK rxe: {what}: {said.strip().removeprefix('error: ')}", flush=True)

    guest.run("cat > /tmp/bars.yaml", TOPOLOGY.encode())
    done("up /tmp/bars.yaml")
    create = f"flow create f --producer h1 --consumer h2 --ring-size {RING} {SHAPE}"
    guest.run(f"echo 0 > /sys/bus/pci/devices/{ADDRESSES[1]}/enable")
    guest.run(f"echo 1 > /sys/bus/pci/devices/{ADDRESSES[0]}/enable")
    refused("a device that is disabled", create, "host `h2`", KINDS[1][:-3], ADDRESSES[1], "disabled", "echo 1 >")
    guest.run(f"echo 1 > /sys/bus/pci/devices/{ADDRESSES[1]}/enable")
    done(create)
    large = f"flow create g --producer h3 --consumer h2 --ring-size 1MiB {SHAPE}"
    refused("a ring larger than the BAR", large, "host `h2`", "ring `g.h2`", ADDRESSES[1], f"{SIZE} B")
    rings = done("ring list")
    # How the kernel has mapped them, by its own list.
    types = guest.run("mount -t debugfs d /sys/kernel/debug; cat /sys/kernel/debug/x86/pat_memtype_list")[1]
    for address, kind in zip(ADDRESSES, ("uncached-minus", "write-combining")):
        begin = guest.run(f"sed -n 3p /sys/bus/pci/devices/{address}/resource")[1].split()[0]
        if not any(f"{int(begin, 16):x}-" in line and kind in line for line in types.splitlines()):
            raise Failed(f"the window at {begin} is not mapped {kind}:\n{types}")
    consumer = guest.popen(f"{AT} zsr consume f > /tmp/came")
    done("produce f", ROWS)
    status, said = consumer.wait()
    came = guest.run("cat /tmp/came")[1]
    if status != 0 or came.encode() != ROWS:
        raise Failed(f"zsr consume: {status}: {said}; {len(came)} bytes came of {len(ROWS)}")
    # The rings are at the begin of each window: head and tail are equal, CLOSED is set, and the items hold rows.
    for path in files:
        window = open(path, "rb").read()
        head, flags = struct.unpack_from("<II", window)
        tail = struct.unpack_from("<I", window, 64)[0]
        if head == 0 or head != tail or head % ITEM or not flags & 1 or b"of those that cross two devices" not in window[4096:4096 + RING]:
            raise Failed(f"{path}: head {head}, flags {flags:#x}, tail {tail}\n{rings}")
        if any(window[4096 + RING:]):
            raise Failed(f"{path}: something is behind the ring")
    done("flow delete f")
    done("down")
    print(f"OK rxe: rings in BAR 2 of two PCI devices, one mapped uncached, one write-combining: {ROWS.count(10)} rows from program to program, "
          "and what is in the devices' memory are the rings", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        bars(sys.argv[1], folder)
