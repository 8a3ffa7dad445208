// What pages do beyond links and forms: the theme, news of live pages, curves. All works without.
"use strict";
(() => {
  const root = document.documentElement;

  // The theme: as the reader's system has it, or light, or dark.
  const THEMES = ["auto", "light", "dark"];
  const button = document.getElementById("theme");
  const showTheme = () => {
    const theme = root.dataset.theme || "auto";
    button.textContent = `Theme: ${theme}`;
    button.setAttribute("aria-label", `Theme: ${theme}. Press for the next one.`);
  };
  if (button) {
    button.hidden = false;
    showTheme();
    button.addEventListener("click", () => {
      const next = THEMES[(THEMES.indexOf(root.dataset.theme || "auto") + 1) % THEMES.length];
      if (next === "auto") delete root.dataset.theme; else root.dataset.theme = next;
      try {
        if (next === "auto") localStorage.removeItem("skipjack-theme");
        else localStorage.setItem("skipjack-theme", next);
      } catch { /* not remembered then */ }
      showTheme();
      curves.forEach((one) => one.draw());
    });
  }

  // News: htmx asks every few seconds, with the tag of what is shown.
  const fresh = document.getElementById("fresh");
  const say = (text) => { if (fresh && fresh.textContent !== text) fresh.textContent = text; };
  const live = () => document.getElementById("live");
  const isBusy = (part) => {
    const focus = document.activeElement;
    if (focus && part.contains(focus) && focus.matches("input, select, textarea")) return true;
    const chosen = document.getSelection();
    return Boolean(chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode));
  };
  let opened = new Set(), focused = null, scrolled = new Map();
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.id === "live" && (document.hidden || isBusy(event.target))) event.preventDefault();
  });
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.target.id === "live") event.detail.headers["If-None-Match"] = event.target.dataset.tag;
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.target;
    if (part.id !== "live") return;
    if (isBusy(part)) { event.detail.shouldSwap = false; return; }
    const tag = event.detail.xhr.getResponseHeader("ETag");
    if (event.detail.shouldSwap && tag) part.dataset.tag = tag;
    opened = new Set([...part.querySelectorAll("details[open]")].map((one) => one.id));
    const place = document.activeElement;
    focused = place && part.contains(place) ? [place.getAttribute("href"), place.textContent] : null;
    scrolled = new Map([...part.querySelectorAll(".scroll, .log, .drawing")].map(
      (one, index) => [index, [one.scrollLeft, one.scrollTop, isAtEnd(one)]]));
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    const part = event.target;
    if (part.id !== "live") return;
    opened.forEach((id) => { const one = document.getElementById(id); if (one) one.open = true; });
    part.querySelectorAll(".scroll, .log, .drawing").forEach((one, index) => {
      const [left, top, end] = scrolled.get(index) || [0, 0, true];
      one.scrollLeft = left;
      one.scrollTop = one.dataset.growing && end ? one.scrollHeight : top;
    });
    if (focused) {
      const [href, text] = focused;
      const same = [...part.querySelectorAll("a, summary, button")].find(
        (one) => one.getAttribute("href") === href && one.textContent === text);
      if (same) same.focus({ preventScroll: true });
    }
    prepare(part);
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.target.id !== "live") return;
    const status = event.detail.xhr.status;
    if (status === 200 || status === 304) say("");
    else if (status === 204) return;
    else say(status ? "Not updated: the server could not read what this page shows; reload it." :
      "Not updated: the server does not answer.");
  });
  const isAtEnd = (one) => one.scrollHeight - one.scrollTop - one.clientHeight < 24;

  // Times as the reader's clock has them.
  const localTimes = (part) => part.querySelectorAll("time[datetime]").forEach((one) => {
    const moment = new Date(one.dateTime);
    if (Number.isNaN(moment.getTime()) || one.dataset.local) return;
    one.dataset.local = "1";
    one.title = one.textContent;
    const two = (number) => String(number).padStart(2, "0");
    one.textContent = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())} ` +
      `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
  });

  // Curves: data from the API, drawn again when there are more.
  const curves = new Map();
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const UNITS = { ns: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]] };
  const text = (value, unit) => {
    if (value === null || value === undefined) return "-";
    for (const [size, name] of UNITS[unit] || []) {
      if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))} ${name}`;
    }
    return String(Number(value.toPrecision(4)));
  };
  class Curve {
    constructor(place) { this.place = place; this.tag = ""; this.data = null; this.plot = null; }
    async load() {
      if (!this.place.isConnected) { curves.delete(this.place); return; }
      if (document.hidden) return;
      const headers = this.tag ? { "If-None-Match": this.tag } : {};
      try {
        const answer = await fetch(this.place.dataset.curve, { headers, cache: "no-store" });
        if (answer.status !== 200) return;
        this.tag = answer.headers.get("ETag") || "";
        this.data = (await answer.json()).record;
        this.draw();
      } catch { /* the server is away: what is drawn stays */ }
    }
    draw() {
      const data = this.data;
      if (!data || !data.x.length || typeof uPlot === "undefined") return;
      const width = Math.max(280, this.place.clientWidth), height = Math.min(320, Math.max(220, width * 0.45));
      const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 },
        ticks: { stroke: color("--line"), width: 1 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
      const options = {
        width, height,
        scales: { x: { time: false }, y: { distr: data.logarithmic ? 3 : 1 } },
        axes: [
          { ...axis, label: data.x_title, labelSize: 22 },
          { ...axis, label: data.y_title, labelSize: 22, size: 68,
            values: (_, values) => values.map((one) => one === null ? "" : text(one, data.unit)) },
        ],
        series: [
          { label: data.x_title },
          ...data.series.map((one, index) => ({
            label: one.name, stroke: color(`--fig-${one.kind}`) || color(`--fig-s${index % 8}`), width: 2,
            paths: one.points ? () => null : one.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
            points: { show: Boolean(one.points), size: 4 }, spanGaps: !one.points,
            value: (_, value) => text(value, data.unit),
          })),
        ],
        legend: { live: true },
      };
      const values = [data.x, ...data.series.map((one) => one.values)];
      this.place.replaceChildren();
      if (this.plot) this.plot.destroy();
      const box = document.createElement("div");
      box.setAttribute("role", "img");
      box.setAttribute("aria-label", `${data.title}. The table below has the same numbers.`);
      this.place.append(box);
      this.plot = new uPlot(options, values, box);
    }
  }
  const prepare = (part) => {
    localTimes(part);
    part.querySelectorAll("[data-curve]").forEach((place) => {
      if (curves.has(place)) return;
      const curve = new Curve(place);
      curves.set(place, curve);
      curve.load();
    });
    part.querySelectorAll(".log[data-growing]").forEach((one) => {
      if (!one.dataset.seen) { one.dataset.seen = "1"; if (!scrolled.size) one.scrollTop = one.scrollHeight; }
    });
  };
  prepare(document);
  if (live()) setInterval(() => curves.forEach((one) => one.load()), 3000);
  let waiting = 0;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => curves.forEach((one) => one.draw()), 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => curves.forEach((one) => one.draw()));
})();
