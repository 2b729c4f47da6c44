"""A browser at `zsr dash`: check.py [--picture FILE]."""
import os, re, signal, subprocess, sys, tempfile, time, urllib.error, urllib.request

from playwright.sync_api import expect, sync_playwright

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from live import Failed, PATIENCE, System

SMALL = "name: lab\nhosts: [h1, h2, h3, h4]\nflows: []\n"
FLOWS = 200


def large(folder):
    hosts = [f"h{n}" for n in range(1, 17)]
    flows = "".join(
        f"  - {{name: f{n}, kind: shuffle, producers: [{hosts[n % 16]}], consumers: [{hosts[(n * 7 + 3) % 16]}], item_size: 64, ring_size: 4KiB}}\n"
        for n in range(FLOWS))
    return write(folder, "large", f"name: large\nhosts: [{', '.join(hosts)}]\nflows:\n{flows}")


def write(folder, name, text):
    path = os.path.join(folder, name + ".yaml")
    with open(path, "w") as f:
        f.write(text)
    return path


class Dash:
    """`zsr dash` of a system, at an address of its own."""

    def __init__(self, system):
        self.process = system.start("dash", "--listen", "127.0.0.1:0", stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        self.address = re.search(r"http://\S+", said)
        if not self.address:
            raise Failed(f"zsr dash: {said}{self.process.stderr.read()}")
        self.address = self.address.group().rstrip("/")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        if self.process.wait(timeout=PATIENCE) != 0:
            raise Failed(f"zsr dash: exit code {self.process.returncode}")


def answers(url, method="GET", **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers)) as answer:
            return answer.status, dict(answer.headers)
    except urllib.error.HTTPError as e:
        return e.code, dict(e.headers)


class Page:
    def __init__(self, browser, address, **options):
        self.page = browser.new_page(**options)
        self.errors = []
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(address)

    def row(self, flow):
        return self.page.locator(f"tr[data-flow='{flow}']")

    def close(self):
        self.page.close()
        if self.errors:
            raise Failed(f"the console says {self.errors}")


def small(system, browser, picture):
    system.up()
    with Dash(system) as dash:
        status, headers = answers(dash.address + "/")
        policy = headers.get("content-security-policy", "")
        if status != 200 or "script-src 'self'" not in policy or "unsafe" in policy:
            raise Failed(f"the page: {status} {headers}")
        for method in ("POST", "PUT", "DELETE"):
            if answers(dash.address + "/live", method)[0] != 405:
                raise Failed(f"{method} is not refused")
        if answers(dash.address + "/live", Host="evil.example")[0] != 403:
            raise Failed("another name for this machine's address is not refused")
        view = Page(browser, dash.address, viewport={"width": 1280, "height": 900})
        page = view.page
        expect(page.locator("#none")).to_be_visible()
        expect(page.locator("#picture [data-host]")).to_have_count(4)

        # A flow that is made while the page is open.
        begun = time.monotonic()
        system.run("flow", "create", "rows", "-p", "h1", "-p", "h2", "-c", "h3", "-c", "h4", "--item-size", "1KiB")
        expect(view.row("rows")).to_be_visible()
        print(f"OK dash: a new flow is on the page {time.monotonic() - begun:.1f} s after it was asked for")
        system.run("flow", "create", "copies", "--kind", "replicate", "-p", "h4", "-c", "h1", "-c", "h2", "--item-size", "1KiB")
        programs = []
        line = "sh", "-c", f"while :; do seq 200000; done | '{system.zsr}' produce \"$0\" --member \"$1\"" 
        for flow, member in (("rows", "h1"), ("rows", "h2"), ("copies", "h4")):
            programs.append(subprocess.Popen([*line, flow, member], env=system.env, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL, start_new_session=True))
        consumers = {}
        for flow, member in (("rows", "h3"), ("rows", "h4"), ("copies", "h1"), ("copies", "h2")):
            consumers[flow, member] = system.start("consume", flow, "--member", member, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            expect(view.row("rows").locator("td").nth(2)).to_have_text(re.compile(r"(KiB|MiB|GiB)/s"))
            expect(page.locator("[data-host=h3] .rate")).to_contain_text("↓")
            expect(page.locator("#events li").first).to_be_visible()

            # Members, settings and fill, by keyboard.
            page.keyboard.press("/")
            page.keyboard.type("row")
            expect(view.row("copies")).to_have_count(0)
            view.row("rows").focus()
            page.keyboard.press("Enter")
            expect(page.locator("#detail")).to_contain_text("max_batch")
            expect(page.locator("#detail tr[data-ring]")).to_have_count(6)
            if picture:
                page.locator("#filter").fill("")
                page.wait_for_function("document.querySelectorAll('.spark').length > 1")
                page.wait_for_timeout(8000)
                page.screenshot(path=picture)
            page.keyboard.press("Escape")
            expect(page.locator("#detail")).to_be_hidden()
            page.locator("#filter").fill("")

            # A press that is longer than the time from one drawing to the next.
            view.row("copies").hover()
            page.mouse.down()
            page.wait_for_timeout(1500)
            page.mouse.up()
            expect(page.locator("#detail h2")).to_contain_text("copies")
            page.locator("#detail button").click(delay=1500)
            expect(page.locator("#detail")).to_be_hidden()

            # A consumer that is killed.
            consumers["rows", "h4"].kill()
            expect(page.locator("[data-host=h4]")).to_have_class("bad")
            expect(view.row("rows").locator("td.bad")).to_be_visible()
            expect(page.locator("#events li.bad").first).to_contain_text("program-died")
        finally:
            for program in programs:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
            for consumer in consumers.values():
                consumer.kill()
                consumer.wait()

        # A controller that is away, and back.
        os.kill(system.pids()["controller"], signal.SIGKILL)
        expect(page.locator("#trouble")).to_be_visible()
        system.run("restart", "controller")
        expect(page.locator("#trouble")).to_be_hidden(timeout=30_000)
        expect(page.locator("#events")).to_contain_text("controller-started")

        # A narrow window scrolls one way only; a dark one is dark.
        page.set_viewport_size({"width": 360, "height": 700})
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            raise Failed("a narrow window has to be scrolled sideways")
        ground = "getComputedStyle(document.body).backgroundColor"
        page.emulate_media(color_scheme="dark")
        dark = page.evaluate(ground)
        page.emulate_media(color_scheme="light")
        if dark == page.evaluate(ground):
            raise Failed("dark and light have the same ground")
        view.close()
    print("OK dash: flows, members, keys, a killed consumer, a controller that is away, narrow and dark windows")


def many(system, browser):
    system.up()
    with Dash(system) as dash:
        view = Page(browser, dash.address)
        expect(view.page.locator("#picture [data-host]")).to_have_count(16)
        expect(view.page.locator("tr[data-flow]")).to_have_count(FLOWS)
        drawn = view.page.evaluate("(() => { const begun = performance.now(); draw(); return performance.now() - begun; })()")
        view.close()
    print(f"OK dash: 16 hosts and {FLOWS} flows, drawn in {drawn:.0f} ms")


def main(arguments):
    picture = arguments[1] if arguments[:1] == ["--picture"] else None
    zsr = os.environ["ZSR"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        try:
            with System(zsr, write(folder, "lab", SMALL)) as system:
                small(system, browser, picture)
            with System(zsr, large(folder)) as system:
                many(system, browser)
        except (Failed, AssertionError) as e:
            print(f"FAILED dash: {e}")
            return 1
        finally:
            browser.close()
    return 0


sys.exit(main(sys.argv[1:]))
