"""Programs in C and C++ against a running system, built from an installed tree with pkg-config, outside of the repository."""
import os, subprocess, sys, tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, ".."), os.path.join(here, "..", "gpu")]
import examples as cuda
from live import Failed, PATIENCE, System

TOPOLOGY = "name: s\nhosts: [h1, h2, {name: h3, byte_order: big}]\nflows: []\n"
FLOWS = [
    ["rows", "-c", "h2", "--item-size", "4KiB"],
    ["typed", "-c", "h2", "--item-size", "64", "--ring-size", "128", "--schema", "n: u64, x: f64"],
    ["many", "-c", "h3", "--item-size", "4KiB", "--ring-size", "16KiB"],
    ["quiet", "-c", "h2"],
    ["over", "-c", "h3"],
    ["full", "-c", "h3", "--item-size", "4KiB", "--ring-size", "16KiB"],
    ["words", "-c", "h2", "--item-size", "4KiB"],
    ["numbers", "-c", "h2", "h3", "--item-size", "4KiB", "--schema", "n: u64, x: f64", "--routing", "explicit(n)"],
    ["news", "-c", "h3", "--item-size", "64", "--ring-size", "256"],
    ["streams", "-c", "h2", "--item-size", "4KiB"],
    ["urgent", "-c", "h2", "--item-size", "4KiB"],
    ["bulk", "-c", "h2", "--item-size", "4KiB"],
    ["sales", "-c", "h3", "--item-size", "4KiB", "--ring-size", "16KiB", "--schema", "shop: u16, n: i64, x: f64"],
    ["laid", "-c", "h2", "h3", "--item-size", "4KiB", "--memory", "h1=layouts"],
    ["placed", "-c", "h2", "--item-size", "4KiB", "--ring-size", "8KiB", "--memory", "h2=layouts"],
    ["lines", "-c", "h2", "--item-size", "4KiB"],
    ["plus-laid", "-c", "h2", "--item-size", "4KiB", "--memory", "h1=layouts"],
    ["plus-placed", "-c", "h2", "--item-size", "4KiB", "--memory", "h2=layouts"],
    ["plus-news", "-c", "h2", "--item-size", "4KiB"],
    ["plus-sales", "-c", "h2", "--item-size", "4KiB", "--schema", "n: u64, x: f64"],
    ["lent", "-c", "h2", "h3", "--item-size", "4KiB", "--ring-size", "16KiB", "--schema", "n: u64, x: f64", "--doorbell", "false"],
]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"]
# Of each way to build: what it takes, and which parts run.
BUILDS = {
    "shared": ([], ["arguments", "records", "rows", "threads", "newest", "urgent", "combine", "streams", "layouts", "placed", "restart", "down"]),
    "asan-ubsan": (["-fsanitize=address,undefined", "-fno-sanitize-recover=all"], ["arguments", "records", "rows", "threads", "newest", "urgent", "combine", "streams", "layouts", "placed", "down"]),
    "tsan": (["-fsanitize=thread"], ["records", "threads", "urgent", "streams", "layouts", "placed"]),
}


def sh(*args, **more):
    done = subprocess.run(args, capture_output=True, text=True, timeout=PATIENCE, **more)
    if done.returncode != 0:
        raise Failed(f"{' '.join(args)}: exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def runs(system, program, *args, lib):
    """A program on the system, which has to succeed."""
    try:
        # TSan does not see how the library orders what its own threads do: what it calls is not looked at, what the program does is.
        tsan = f"suppressions={os.path.join(here, 'tsan')} exitcode=66"
        env = system.env | {"LD_LIBRARY_PATH": lib, "TSAN_OPTIONS": tsan}
        done = subprocess.run([program, *args], env=env, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired as e:
        raise Failed(f"{os.path.basename(program)} {' '.join(args)}: not done after {PATIENCE} s") from e
    if done.returncode != 0:
        raise Failed(f"{os.path.basename(program)} {' '.join(args)}: exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def main(dist, cc, cxx, sanitizers):
    lib, zsr = os.path.join(dist, "lib"), os.path.join(dist, "bin", "zsr")
    with tempfile.TemporaryDirectory(prefix="zsr-capi-") as work:
        env = os.environ | {"PKG_CONFIG_PATH": os.path.join(lib, "pkgconfig")}
        pkg = lambda *what: sh("pkg-config", *what, "zsr", env=env).split()
        topology = os.path.join(work, "s.yaml")
        with open(topology, "w") as f:
            f.write(TOPOLOGY)

        def build(name, source, *options):
            compiler, std = (cxx, "-std=c++17") if source.endswith((".cpp", ".cu")) else (cc, "-std=c11")
            program = os.path.join(work, name)
            libs = pkg("--variable=archive") if name.startswith("static") else pkg("--libs")
            sh(compiler, std, *STRICT, *options, *pkg("--cflags"), source, "-o", program, *libs, "-pthread", cwd=work)
            return program

        examples = os.path.join(dist, "share", "zsr", "examples")
        programs = [(build(n, os.path.join(examples, s)), n) for n, s in (("c", "rows.c"), ("cpp", "rows.cpp"), ("static", "rows.c"))]
        for program, name in programs:
            with System(zsr, topology) as system:
                system.up()
                system.run("flow", "create", "rows", "-p", "h1", "-c", "h3", "--item-size", "4KiB")
                if runs(system, program, lib=lib) != "1,ada\n2,grace\n3,edsger\n":
                    raise Failed(f"the example in {name} prints something else")
                system.run("flow", "delete", "rows")
                system.down()
            print(f"OK capi: the example, {name}")
        # The CUDA programs, whose kernels are threads here.
        for name in ("join", "moe"):
            build(name, os.path.join(examples, "cuda", f"{name}.cu"), "-x", "c++")
        flow = build("flow", os.path.join(here, "../gpu/flow.cu"), "-x", "c++", "-I", os.path.join(examples, "cuda"))
        os.link(flow, flow + "-cpu")
        cuda.main(dist, work, memories=["host"])
        for name, (options, parts) in BUILDS.items():
            if options and name not in sanitizers:
                print(f"SKIPPED capi: {name}: {cc} can't link with {options[0]}")
                continue
            check = build(f"check-{name}", os.path.join(here, "check.c"), *options)
            plus = build(f"plus-{name}", os.path.join(here, "check.cpp"), *options)
            rings = build(f"rings-{name}", os.path.join(here, "rings.cpp"), *options)
            with System(zsr, topology) as system:
                if "arguments" in parts:
                    runs(system, check, "arguments", lib=lib)
                system.up()
                for flow, *more in FLOWS:
                    system.run("flow", "create", flow, "-p", "h1", *more)
                system.run("flow", "create", "streams-back", "-p", "h2", "-c", "h1", "--item-size", "512")
                for part in parts:
                    if part not in ("arguments", "restart", "down"):
                        runs(system, check, part, lib=lib)
                runs(system, plus, lib=lib)
                runs(system, rings, lib=lib)
                if "restart" in parts:
                    meanwhile(system, check, "restart", lib, 2 * [lambda: system.run("restart", "controller")])
                if "down" in parts:
                    meanwhile(system, check, "down", lib, [system.down])
                else:
                    system.down()
            print(f"OK capi: {name}: {', '.join(parts)}; C++; rings")


def meanwhile(system, check, part, lib, actions):
    """Something happens each time that the program waits."""
    env = system.env | {"LD_LIBRARY_PATH": lib}
    # Programs in C have the default of SIGPIPE, which Python ignores.
    program = subprocess.Popen([check, part], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, restore_signals=True)
    try:
        for action in actions:
            if program.stdout.readline() != "waiting\n":
                raise Failed(f"{part}: exit code {program.wait(PATIENCE)} before it waited")
            action()
            try:
                program.stdin.write("y")
                program.stdin.flush()
            except BrokenPipeError:
                pass
        if program.wait(PATIENCE) != 0:
            raise Failed(f"{part}: exit code {program.returncode}")
    finally:
        program.kill()
        program.communicate()


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
    except Failed as e:
        print(f"FAILED capi: {e}")
        sys.exit(1)
