"""Compiles CUDA sources for architectures that nvcc no longer has: python3 nvrtc.py LIBNVRTC INCLUDE ARCH,... SOURCE... Any warning fails."""

import ctypes
import sys

library, include, architectures, *sources = sys.argv[1:]
nvrtc = ctypes.CDLL(library)


def compiled(source, arch):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    with open(source, "rb") as text:
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.read(), source.encode(), 0, None, None)
    options = [f"-arch={arch}".encode(), b"-std=c++17", f"-I{include}".encode()]
    result = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    said = [line for line in log.value.decode().splitlines() if line.strip() and "Architectures prior to" not in line]
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    if result != 0 or said or size.value == 0:
        sys.exit(f"FAILED: {source} for {arch}: error {result}\n" + "\n".join(said))


for arch in architectures.split(","):
    for source in sources:
        compiled(source, arch)
    print(f"{arch}: {len(sources)} sources compile")
