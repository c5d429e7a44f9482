// Keeps what is shown up to date, and draws the plots. Without it, the page works but stays as it was.
"use strict";

const every = 5000;
let paused = false;

// Search by keyboard.
document.addEventListener("keydown", (event) => {
  const field = document.querySelector(".search input");
  if (event.key === "/" && field && !event.ctrlKey && !event.metaKey && !event.altKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
    event.preventDefault();
    field.focus();
    field.select();
  }
});

// A filter applies when it is chosen.
for (const select of document.querySelectorAll(".filters select")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}

const pause = document.getElementById("pause");
if (pause) {
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Resume" : "Pause";
    if (!paused) update();
  });
}

// lasting returns what identifies an element that has the focus, so that it is found again in new content.
function lasting(element) {
  if (element.id) return "#" + CSS.escape(element.id);
  if (element.getAttribute("href")) return `${element.localName}[href="${CSS.escape(element.getAttribute("href"))}"]`;
  if (element.getAttribute("aria-label")) return `[aria-label="${CSS.escape(element.getAttribute("aria-label"))}"]`;
  if (element.localName === "summary") return "#" + CSS.escape(element.parentElement.id) + " > summary";
  return "";
}

// replace puts new content in the place of old content. Focus, open details and the place of tables stay.
function replace(old, fresh) {
  for (const details of old.querySelectorAll("details[open]")) {
    const same = fresh.querySelector("#" + CSS.escape(details.id));
    if (same) same.open = true;
  }
  if (old.innerHTML === fresh.innerHTML) return;
  const tables = [...old.querySelectorAll(".table")].map((table) => table.scrollLeft);
  const focus = old.contains(document.activeElement) ? lasting(document.activeElement) : "";
  old.replaceChildren(...fresh.childNodes);
  old.querySelectorAll(".table").forEach((table, i) => { table.scrollLeft = tables[i] || 0; });
  if (focus) old.querySelector(focus)?.focus({ preventScroll: true });
}

// selecting reports whether somebody is about to copy something.
function selecting() {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && document.querySelector("main").contains(selection.anchorNode);
}

// The policy of the page lets text become content only here; it never runs scripts.
const parsed = window.trustedTypes ? trustedTypes.createPolicy("page", { createHTML: (text) => text }) : { createHTML: (text) => text };

async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (answer.redirected && new URL(answer.url).pathname === "/ui/login") {
    location.reload();
    return;
  }
  if (!answer.ok && answer.status !== 404) throw new Error("status " + answer.status);
  const fresh = new DOMParser().parseFromString(parsed.createHTML(await answer.text()), "text/html");
  if (selecting()) return;
  for (const old of document.querySelectorAll("[data-live]")) {
    const same = fresh.getElementById(old.id);
    if (same) replace(old, same);
  }
}

let updating = false;
async function update() {
  if (updating || paused || document.hidden) return;
  updating = true;
  try {
    await Promise.all([refresh(), ...plots.map((plot) => plot.update())]);
  } catch (error) {
    const banner = document.createElement("p");
    banner.className = "banner bad";
    banner.setAttribute("role", "status");
    banner.textContent = "The server does not answer; what is shown may be out of date. (" + error.message + ")";
    document.getElementById("news")?.replaceChildren(banner);
  } finally {
    updating = false;
  }
}

// color returns a color of the style sheet as the theme has it.
function color(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

function short(value) {
  for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (value >= size) return three.format(value / size) + unit;
  }
  return three.format(value);
}

// clock returns a time of the day in UTC.
function clock(seconds, full) {
  return new Date(seconds * 1000).toISOString().slice(11, full ? 19 : 16);
}

const kinds = {
  requests: { names: ["Accepted", "Refused"], keys: ["accepted", "refused"], factor: 1, least: 1 },
  bits: { names: ["From clients", "To clients"], keys: ["bytes_in", "bytes_out"], factor: 8, least: 1000 },
};
const strokes = { requests: ["--accepted", "--refused"], bits: ["--good", "--accepted"] };

// Plots are those of one series.
class Plots {
  constructor(pair) {
    this.address = pair.dataset.series;
    this.places = [...pair.querySelectorAll("[data-plot]")];
    this.drawn = [];
    for (const place of this.places) {
      place.addEventListener("keydown", (event) => this.move(event, place));
      place.addEventListener("mouseleave", () => setTimeout(() => this.rest()));
    }
  }

  async update() {
    const answer = await fetch(this.address);
    if (!answer.ok) throw new Error("status " + answer.status);
    this.data = await answer.json();
    if (this.drawn.length === 0) this.draw();
    this.places.forEach((place, i) => this.drawn[i].setData(this.values(place.dataset.plot)));
    // uPlot clears the legend after it has drawn.
    setTimeout(() => this.rest());
  }

  // rest lets the legends show the last figures while nothing is pointed at.
  rest() {
    for (const plot of this.drawn) {
      if (plot.cursor.idx == null && plot.data[0].length > 0) plot.setLegend({ idx: plot.data[0].length - 1 });
    }
  }

  values(kind) {
    const { first, step } = this.data;
    const times = this.data.accepted.map((_, i) => first + i * step);
    return [times, ...kinds[kind].keys.map((key) => this.data[key].map((v) => v * kinds[kind].factor))];
  }

  draw() {
    if (!this.data) return;
    for (const plot of this.drawn) plot.destroy();
    const quiet = color("--quiet"), line = color("--line"), fill = color("--fill");
    this.drawn = this.places.map((place) => {
      const kind = kinds[place.dataset.plot];
      const axis = { stroke: quiet, font: "12px system-ui, sans-serif", grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
      return new uPlot({
        width: place.clientWidth, height: 190,
        // Times are those of the server, so that those who share a link see the same ones.
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        cursor: { drag: { x: false, y: false }, sync: { key: "traffic" } },
        scales: {
          x: { range: () => [this.data.begin, this.data.end] },
          y: { range: (_, low, high) => [0, Math.max(high || 0, kind.least) * 1.1] },
        },
        axes: [
          { ...axis, space: 60, values: (_, times) => times.map((t) => clock(t, false)) },
          { ...axis, size: 56, values: (_, values) => values.map(short) },
        ],
        series: [
          { label: "UTC", value: (_, t) => (t == null ? "–" : clock(t, true)) },
          ...kind.names.map((label, i) => ({
            label, stroke: color(strokes[place.dataset.plot][i]), width: 1.75, fill: i === 0 ? fill : undefined, points: { show: false },
            value: (_, v) => (v == null ? "–" : short(v)),
          })),
        ],
      }, this.values(place.dataset.plot), place);
    });
    setTimeout(() => this.rest());
  }

  // resize fits the plots to their places.
  resize() {
    this.drawn.forEach((plot, i) => plot.setSize({ width: this.places[i].clientWidth, height: 190 }));
  }

  // move moves the cursor by keyboard.
  move(event, place) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const plot = this.drawn[this.places.indexOf(place)];
    if (!by || !plot || plot.data[0].length === 0) return;
    event.preventDefault();
    const last = plot.data[0].length - 1;
    const next = Math.min(Math.max((plot.cursor.idx ?? last + 1) + by, 0), last);
    plot.setCursor({ left: plot.valToPos(plot.data[0][next], "x"), top: 0 });
  }
}

const plots = [...document.querySelectorAll("[data-series]")].map((pair) => new Plots(pair));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach((plot) => plot.draw()));
addEventListener("resize", () => plots.forEach((plot) => plot.resize()));
document.addEventListener("visibilitychange", update);

if (pause) {
  for (const plot of plots) plot.update().catch(() => {});
  setInterval(update, every);
}
