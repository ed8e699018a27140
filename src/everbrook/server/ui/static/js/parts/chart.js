// Charts: a line for each series over time. uPlot is loaded when the first one is drawn.

import { html, useEffect, useRef } from "../../vendor/preact.js";
import { formatTime } from "../text.js";

let loading = null;
function load() {
  loading ??= new Promise((resolve, reject) => {
    const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "vendor/uplot.css" });
    const script = Object.assign(document.createElement("script"), { src: "vendor/uplot.js", onload: () => resolve(globalThis.uPlot), onerror: reject });
    document.head.append(style, script);
  });
  return loading;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const LINES = ["--line-1", "--line-2", "--line-3", "--line-4"];

function optionsFor(title, series, width, format) {
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--rule"), width: 1 }, ticks: { stroke: colour("--rule"), width: 1 }, font: "11px system-ui" };
  return {
    title, width, height: 170, legend: { live: false, show: series.length > 1 },
    cursor: { drag: { x: false, y: false } },
    // To the second, which is finer than the points are: a day and an hour below would cover each other.
    axes: [{ ...axis, space: 70, values: (_, times) => times.map((time) => formatTime(time * 1000).slice(0, 8)) }, { ...axis, size: 64, values: (_, values) => values.map(format) }],
    scales: { y: { range: (_, low, high) => [Math.min(0, low), high || 1] } },
    series: [{}, ...series.map((label, at) => ({ label, stroke: colour(LINES[at % LINES.length]), width: 1.5, points: { show: false }, value: (_, value) => (value == null ? "–" : format(value)) }))],
  };
}

// `points` are [time in ms, value, value, …].
export function Chart({ title, series, points, format = String, theme }) {
  const box = useRef(null), plot = useRef(null), newest = useRef(points);
  newest.current = points;
  const columns = () => {
    const data = [newest.current.map(([time]) => time / 1000)];
    series.forEach((_, at) => data.push(newest.current.map((point) => point[at + 1] ?? null)));
    return data;
  };
  useEffect(() => {
    let gone = false, sizes = null;
    load().then((UPlot) => {
      if (gone) return;
      plot.current = new UPlot(optionsFor(title, series, box.current.clientWidth, format), columns(), box.current);
      sizes = new ResizeObserver(() => plot.current?.setSize({ width: box.current.clientWidth, height: 170 }));
      sizes.observe(box.current);
    });
    return () => { gone = true; sizes?.disconnect(); plot.current?.destroy(); plot.current = null; };
  }, [theme, series.join()]);
  useEffect(() => plot.current?.setData(columns()));
  const last = points.at(-1);
  const said = last ? series.map((label, at) => `${label} ${last[at + 1] == null ? "unknown" : format(last[at + 1])}`).join(", ") : "nothing yet";
  return html`<figure class="chart" role="img" aria-label=${`${title}: ${said}`}><div ref=${box}></div></figure>`;
}

export function Sparkline({ values, label }) {
  const most = Math.max(1, ...values), step = 120 / Math.max(1, values.length - 1);
  const path = values.map((value, at) => `${at ? "L" : "M"}${(at * step).toFixed(1)} ${(22 - (value / most) * 20).toFixed(1)}`).join("");
  return html`<svg class="sparkline" viewBox="0 0 120 24" role="img" aria-label=${label}><path d=${path || "M0 22L120 22"} /></svg>`;
}
