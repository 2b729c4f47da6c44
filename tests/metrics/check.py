"""Prometheus and promtool at `zsr metrics`."""
import json, os, shutil, signal, socket, subprocess, sys, tempfile, time, urllib.parse, urllib.request

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, ".."))
from live import Failed, PATIENCE, System

EXAMPLES = os.path.join(here, "..", "..", "examples", "prometheus")
TOPOLOGY = "name: s\nhosts: [h1, h2, h3]\nflows: []\n"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def promtool(*args, text=None):
    done = subprocess.run(["promtool", *args], input=text, capture_output=True, text=True, timeout=60)
    if done.returncode != 0 or done.stderr.strip():
        raise Failed(f"promtool {' '.join(args)}: exit code {done.returncode}: {done.stdout}{done.stderr}")


def until(what, look):
    """What `look` gives, once it gives something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if (found := look()):
                return found
        except OSError:
            pass
        time.sleep(0.1)
    raise Failed(f"not in {PATIENCE} s: {what}")


def main(work):
    topology = os.path.join(work, "s.yaml")
    with open(topology, "w") as f:
        f.write(TOPOLOGY)
    promtool("check", "rules", os.path.join(EXAMPLES, "alerts.yml"))
    promtool("check", "config", "--syntax-only", os.path.join(EXAMPLES, "prometheus.yml"))
    port, own = free_port(), free_port()
    # The example's files, with other addresses, quicker, and rules that wait for nothing.
    for name, changes in [
        ("prometheus.yml", [("127.0.0.1:9464", f"127.0.0.1:{port}"), ("scrape_interval: 5s", "scrape_interval: 500ms")]),
        ("alerts.yml", [("for: 1m", "for: 0s"), ("name: zsr\n", "name: zsr\n    interval: 500ms\n")]),
    ]:
        with open(os.path.join(EXAMPLES, name)) as f:
            text = f.read()
        for old, new in changes:
            if old not in text:
                raise Failed(f"{name} has no {old!r}")
            text = text.replace(old, new)
        with open(os.path.join(work, name), "w") as f:
            f.write(text)
    with System(os.environ["ZSR"], topology) as system:
        system.up()
        system.run("flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "1KiB")
        system.run("flow", "create", "g", "-p", "h1", "-c", "h3", "--item-size", "1KiB")
        promtool("check", "metrics", text=system.run("metrics"))
        metrics = subprocess.Popen([system.zsr, "metrics", "--listen", f"127.0.0.1:{port}"], env=system.env, stderr=subprocess.DEVNULL)
        data = os.path.join(work, "data")
        prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={work}/prometheus.yml", f"--storage.tsdb.path={data}", f"--web.listen-address=127.0.0.1:{own}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def ask(query):
            url = f"http://127.0.0.1:{own}/api/v1/query?" + urllib.parse.urlencode({"query": query})
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]["result"]

        try:
            until("Prometheus scrapes", lambda: [r for r in ask("up") if r["value"][1] == "1"])
            stamping = system.env | {"ZSR_STAMP_EVERY": "1"}
            pushed = subprocess.run([system.zsr, "produce", "f"], env=stamping, input="a line\n" * 5000, text=True, capture_output=True, timeout=PATIENCE)
            if pushed.returncode != 0:
                raise Failed(pushed.stderr)
            until("what was delivered", lambda: [r for r in ask('zsr_flow_delivered_bytes_total{flow="f"}') if float(r["value"][1]) >= 35_000])
            popped = system.run("consume", "f").count("\n")
            if popped != 5000:
                raise Failed(f"{popped} lines were popped of 5000")
            if ask('zsr_flow_state{flow="g",state="running"}')[0]["value"][1] != "1":
                raise Failed("flow g does not run")
            # Each query of the dashboard for Grafana finds something.
            with open(os.path.join(EXAMPLES, "grafana.json")) as f:
                dashboard = json.load(f)
            for panel in dashboard["panels"]:
                for target in panel["targets"]:
                    query = target["expr"].replace("$flow", ".*").replace("$__rate_interval", "1m")
                    until(f"panel {panel['title']}: {query}", lambda query=query: ask(query))
            # A program that dies is an alert.
            dies = subprocess.Popen([system.zsr, "consume", "g"], env=system.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until("the program is there", lambda: [r for r in ask('zsr_ring_attached{ring="g.h3"}') if r["value"][1] == "1"])
            dies.send_signal(signal.SIGKILL)
            dies.wait()
            until("the alert", lambda: ask('ALERTS{alertname="ZsrProgramDied",alertstate="firing",ring="g.h3"}'))
            metrics.send_signal(signal.SIGINT)
            if metrics.wait(timeout=60) != 0:
                raise Failed("zsr metrics does not end well")
        finally:
            for process in metrics, prometheus:
                process.kill()
                process.wait()
        system.down()
    print("OK metrics: promtool finds nothing, Prometheus scrapes, each panel for Grafana has data, and an alert fires")


work = tempfile.mkdtemp(prefix="zsr-metrics-")
try:
    main(work)
except Failed as e:
    sys.exit(f"FAILED metrics: {e}")
finally:
    shutil.rmtree(work)
