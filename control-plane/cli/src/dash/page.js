"use strict";
// What the page shows: the newest state and rates, the events so far, and a minute of each flow's rates.
const SAMPLES = 120;
let system = null, flows = [], rates = new Map(), past = new Map(), chosen = null;
const $ = (selector) => document.querySelector(selector);

// An element. Text never becomes markup.
function make(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "line", "circle", "rect", "path", "polyline", "text", "title"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at++; }
  return `${at && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[at]}`;
}
const count = (n) => n >= 1e6 ? `${(n / 1e6).toFixed(1)} M` : n >= 1e4 ? `${(n / 1e3).toFixed(0)} k` : `${Math.round(n)}`;
const members = (flow) => [...flow.producers, ...flow.consumers];
const ringsOf = (name) => rates.get(name)?.rings ?? [];

// How a ring is: red if its program died, yellow if its NIC is silent.
const mood = (ring) => ring?.died ? "bad" : ring?.silent ? "warn" : "";
function worst(moods) { return moods.includes("bad") ? "bad" : moods.includes("warn") ? "warn" : ""; }
function moodOf(flow) {
  if (flow.state === "failed") return "bad";
  if (rates.get(flow.name)?.old_ms > 0) return "warn";
  const own = worst(ringsOf(flow.name).map(mood));
  return own || (flow.state === "running" || flow.state === "ended" ? "" : "warn");
}

function stateOf(flow, kind) {
  const old = rates.get(flow.name)?.old_ms ?? 0;
  if (old > 0) return `${flow.state}; figures are ${Math.ceil(old / 1000)} s old`;
  return kind === "bad" && flow.state !== "failed" ? "a program died" : flow.state;
}

function totals() {
  const all = [...rates.values()];
  const switched = system.switch;
  const rows = [
    ["moves", `${size(all.reduce((sum, f) => sum + f.bytes_per_second, 0))}/s`, ""],
    ["flows", `${flows.length}`, ""],
    ["switch", switched ? `${switched.name}${switched.connected ? "" : ": not reached"}` : "none", switched?.connected ? "good" : "bad"],
    ["agents", `${system.hosts.filter((h) => h.connected).length} of ${system.hosts.length}`, system.hosts.every((h) => h.connected) ? "good" : "bad"],
  ];
  if (system.standby) rows.push(["standby", system.standby.ready ? "ready" : "not ready", system.standby.ready ? "good" : "warn"]);
  const dropped = Object.entries(drops).filter(([, n]) => n > 0);
  if (dropped.length) rows.push(["dropped", dropped.map(([why, n]) => `${why} ${count(n)}`).join(", "), "warn"]);
  const troubles = [switched?.trouble, ...(switched?.ports ?? []).map((p) => p.trouble && `${p.link}: ${p.trouble}`), system.standby?.trouble];
  for (const why of troubles.filter(Boolean)) rows.push(["trouble", why, "warn"]);
  for (const change of system.pending ?? []) {
    rows.push(["under way", `${change.what}${change.waits_for ? `, waits for ${change.waits_for}` : ""}`, "warn"]);
  }
  if (system.journal_trouble) rows.push(["journal", system.journal_trouble, "bad"]);
  $("#totals").replaceChildren(...rows.map(([what, text, kind]) =>
    make("div", {}, make("dt", {}, what), make("dd", { class: kind }, text))));
}
let drops = {};

// Hosts on an ellipse around the switch.
function picture() {
  const hosts = system.hosts, shapes = [];
  const at = new Map(hosts.map((host, n) => {
    const angle = Math.PI * (2 * n / hosts.length - 0.5);
    return [host.name, { x: 235 * Math.cos(angle), y: 165 * Math.sin(angle) }];
  }));
  const moved = new Map(hosts.map((host) => [host.name, { up: 0, down: 0, moods: [] }]));
  for (const flow of flows) {
    const where = new Map(members(flow).flatMap((m) => m.rings.map((ring) => [ring.name, m.host])));
    for (const ring of ringsOf(flow.name)) {
      const host = moved.get(where.get(ring.name));
      if (!host) continue;
      host[ring.role === "producer" ? "up" : "down"] += ring.bytes_per_second;
      host.moods.push(mood(ring));
    }
  }
  const width = (rate) => rate > 0 ? 1.5 + 1.3 * Math.log2(1 + rate / 1e5) : 0;
  for (const host of hosts) {
    const { x, y } = at.get(host.name), { up, down } = moved.get(host.name);
    shapes.push(make("line", { class: "link", x1: 0, y1: 0, x2: x, y2: y }));
    const length = Math.hypot(x, y), side = [-y / length, x / length];
    for (const [rate, sign] of [[up, 1], [down, -1]]) {
      if (rate <= 0) continue;
      const off = sign * (width(rate) / 2 + 1), [dx, dy] = [side[0] * off, side[1] * off];
      shapes.push(make("line", { class: "moves", "stroke-width": width(rate), x1: dx, y1: dy, x2: x + dx, y2: y + dy }));
    }
  }
  const flow = flows.find((f) => f.name === chosen);
  for (const [side, bend] of flow ? [[flow.producers, 14], [flow.consumers, -14]] : []) {
    for (const member of side) {
      const p = at.get(member.host);
      if (p) shapes.push(make("path", { class: "bundle", d: `M0 0Q${p.x / 2 - bend} ${p.y / 2 + bend} ${p.x} ${p.y}` }));
    }
  }
  const sw = system.switch;
  shapes.push(make("g", { class: sw?.connected ? "" : "bad" },
    make("rect", { class: "node", x: -34, y: -20, width: 68, height: 40, rx: 4 }), make("text", { y: 4 }, sw?.name ?? "?")));
  for (const host of hosts) {
    const { x, y } = at.get(host.name), { up, down, moods } = moved.get(host.name);
    const kind = host.connected ? worst([...moods, host.trouble ? "warn" : ""]) : "bad";
    const why = host.trouble ?? (host.connected ? "" : "its agent does not answer");
    const rate = [up > 0 ? `↑ ${size(up)}/s` : "", down > 0 ? `↓ ${size(down)}/s` : ""].filter(Boolean).join("  ");
    shapes.push(make("g", { class: kind, "data-host": host.name, transform: `translate(${x} ${y})` },
      make("title", {}, `${host.name} ${host.ip}${why ? `: ${why}` : ""}`),
      make("circle", { class: "node", r: 21 }), make("text", { y: 4 }, host.name), make("text", { class: "rate", y: y < -1 ? -27 : 34 }, rate)));
  }
  $("#picture svg").replaceChildren(...shapes);
}

function spark(name) {
  const values = past.get(name) ?? [], most = Math.max(1, ...values);
  return values.map((v, n) => `${n + SAMPLES - values.length},${(24 - 22 * v / most).toFixed(1)}`).join(" ");
}

// A flow's row, whose cells stay: a click on one that is replaced while the button is down would be none.
function newRow(name) {
  const line = make("svg", { viewBox: `0 0 ${SAMPLES} 25`, preserveAspectRatio: "none", "aria-hidden": "true" }, make("polyline", { class: "spark" }));
  const row = make("tr", { tabindex: 0, "data-flow": name }, make("td", {}, name), make("td"), make("td"),
    make("td", { class: "wide" }), make("td", { class: "wide" }), make("td", {}, line), make("td"));
  row.addEventListener("click", () => choose(name));
  return row;
}

const rows = new Map();
function table() {
  const part = $("#filter").value.trim().toLowerCase();
  const fits = (flow) => [flow.name, flow.kind, ...members(flow).map((m) => m.host)].some((text) => text.toLowerCase().includes(part));
  const shown = flows.filter(fits);
  const body = $("#flows tbody");
  for (const name of [...rows.keys()].filter((name) => !shown.some((f) => f.name === name))) {
    rows.get(name).remove();
    rows.delete(name);
  }
  shown.forEach((flow, n) => {
    let row = rows.get(flow.name);
    if (!row) {
      row = newRow(flow.name);
      rows.set(flow.name, row);
    }
    if (body.children[n] !== row) body.insertBefore(row, body.children[n] ?? null);
    const rate = rates.get(flow.name);
    row.setAttribute("aria-selected", flow.name === chosen);
    const kind = moodOf(flow);
    const texts = [flow.name, flow.kind, rate ? `${size(rate.bytes_per_second)}/s` : "", rate ? count(rate.items_per_second) : "",
      rate ? count(rate.retries) : "", null, stateOf(flow, kind)];
    texts.forEach((text, at) => { if (text !== null) row.cells[at].textContent = text; });
    row.cells[6].className = kind;
    row.querySelector(".spark").setAttribute("points", spark(flow.name));
  });
  $("#none").hidden = flows.length > 0;
}

function choose(name) {
  chosen = chosen === name ? null : name;
  draw();
  if (chosen) $("#detail").scrollIntoView({ block: "nearest" });
}

function detail() {
  const flow = flows.find((f) => f.name === chosen), box = $("#detail");
  box.hidden = !flow;
  if (!flow) return;
  const settings = { item_size: size(flow.item_size), ring_size: size(flow.ring_size), lanes: flow.lanes, ...flow.settings };
  const list = Object.entries(settings).filter(([, value]) => value !== null && value !== "")
    .map(([key, value]) => make("div", {}, make("dt", {}, key), make("dd", {}, `${value}`)));
  const stats = new Map(ringsOf(flow.name).map((ring) => [ring.name, ring]));
  const lines = [["producer", flow.producers], ["consumer", flow.consumers]].flatMap(([role, side]) =>
    side.flatMap((member) => member.rings.map((ring) => {
      const own = stats.get(ring.name), is = mood(own);
      const state = own?.old_ms > 0 ? `old: ${Math.ceil(own.old_ms / 1000)} s`
        : is === "bad" ? "died" : is === "warn" ? "silent" : own?.attached ? "attached" : "no program";
      return make("tr", { "data-ring": ring.name },
        make("td", {}, role), make("td", {}, member.name), make("td", {}, member.host), make("td", {}, ring.name),
        make("td", {}, make("meter", { min: 0, max: 1, value: own?.fill ?? 0, title: `${Math.round(100 * (own?.fill ?? 0))} % full` })),
        make("td", {}, own ? `${size(own.bytes_per_second)}/s` : ""),
        make("td", { class: own?.old_ms > 0 ? "warn" : is || (own?.attached ? "good" : "") }, member.leaving ? `${state}, leaves` : state));
    })));
  const waits = [flow.reason, flow.pending].filter(Boolean).map((why) => make("p", { class: moodOf(flow) || "warn" }, why));
  $("#detail h2").textContent = `${flow.name}: ${flow.kind}, ${flow.state}`;
  $("#detail .waits").replaceChildren(...waits);
  $("#detail dl").replaceChildren(...list);
  $("#detail tbody").replaceChildren(...lines);
}

function line(event) {
  const grave = ["flow-failed", "flow-stalled", "program-died", "member-silent", "agent-lost", "switch-lost", "session-lost", "primary-lost",
    "standby-lost", "journal-failed", "link-down", "process-late", "wrong-source", "wrong-vlan", "missed"].includes(event.kind);
  const about = [event.flow, event.member, event.host].filter(Boolean).join(" ");
  return make("li", { class: grave ? "bad" : "" }, make("time", {}, new Date(event.time_ms).toLocaleTimeString()),
    make("b", {}, event.kind), make("span", {}, [about, event.text].filter(Boolean).join(": ")));
}

function draw() {
  if (!system) return;
  $("#system").textContent = system.system;
  document.title = `zsr ${system.system}`;
  totals();
  picture();
  table();
  detail();
}

let due = false;
function soon() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; draw(); });
}

function trouble(text) {
  $("#trouble").hidden = !text;
  $("#trouble").textContent = text;
}

const source = new EventSource("live");
const on = (kind, act) => source.addEventListener(kind, (message) => act(message.data));
on("trouble", (text) => trouble(JSON.parse(text)));
on("state", (text) => {
  ({ system, flows } = JSON.parse(text));
  flows.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
  soon();
});
on("rates", (text) => {
  const now = JSON.parse(text);
  drops = now.drops;
  rates = new Map(now.flows.map((flow) => [flow.name, flow]));
  for (const [name, flow] of rates) {
    const values = past.get(name) ?? [];
    values.push(flow.bytes_per_second);
    past.set(name, values.slice(-SAMPLES));
  }
  for (const name of past.keys()) if (!rates.has(name)) past.delete(name);
  soon();
});
on("events", (text) => $("#events ol").replaceChildren(...JSON.parse(text).map(line).reverse()));
on("event", (text) => {
  const list = $("#events ol");
  list.prepend(line(JSON.parse(text)));
  while (list.children.length > 200) list.lastChild.remove();
});
source.onerror = () => trouble("zsr dash does not answer: is it still running? This page tries again.");
source.onopen = () => trouble("");

$("#filter").addEventListener("input", soon);
$("#detail button").addEventListener("click", () => choose(chosen));
document.addEventListener("keydown", (key) => {
  const row = document.activeElement?.closest?.("tr[data-flow]");
  if (key.key === "Escape") { if (chosen) choose(chosen); else $("#filter").value = "", soon(); }
  else if (key.key === "/" && document.activeElement !== $("#filter")) { key.preventDefault(); $("#filter").focus(); }
  else if (row && (key.key === "Enter" || key.key === " ")) { key.preventDefault(); choose(row.dataset.flow); }
  else if (row && key.key === "ArrowDown") { key.preventDefault(); row.nextElementSibling?.focus(); }
  else if (row && key.key === "ArrowUp") { key.preventDefault(); row.previousElementSibling?.focus(); }
});
