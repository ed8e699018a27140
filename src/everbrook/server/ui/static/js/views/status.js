// The server: its pace, latency, commits, readers and storage, from /metrics.

import { html, useRef, useState } from "../../vendor/preact.js";
import { parseMetrics, quantile, rate, total } from "../metrics.js";
import { Chart } from "../parts/chart.js";
import { Failure } from "../parts/text.js";
import { useEvery } from "../parts/hooks.js";
import { request } from "../server.js";
import { formatBytes, formatNumber } from "../text.js";

const POLL_MS = 2000;
const POINTS = 300;
const ms = (secs) => (secs === null ? null : 1000 * secs);
const formatMs = (value) => `${formatNumber(value)} ms`;

const CHARTS = [
  { title: "Requests per second", series: ["all", "refused"], format: formatNumber, of: (old, now) => [rate(old, now, "everbrook_requests_total"), rate(old, now, "everbrook_requests_total", { status: /^[45]/ })] },
  { title: "Appended messages per second", series: ["messages"], format: formatNumber, of: (old, now) => [rate(old, now, "everbrook_appended_messages_total")] },
  { title: "Bytes per second", series: ["appended", "sent"], format: formatBytes, of: (old, now) => [rate(old, now, "everbrook_appended_bytes_total"), rate(old, now, "everbrook_response_bytes_total")] },
  { title: "Latency of appends", series: ["p50", "p99"], format: formatMs, of: (old, now) => [0.5, 0.99].map((share) => ms(quantile(old, now, "everbrook_request_duration_seconds", share, { operation: "append" }))) },
  { title: "Commit groups per second", series: ["groups"], format: formatNumber, of: (old, now) => [rate(old, now, "everbrook_commit_group_changes_count")] },
  { title: "Time of a disk sync", series: ["p50", "p99"], format: formatMs, of: (old, now) => [0.5, 0.99].map((share) => ms(quantile(old, now, "everbrook_commit_sync_seconds", share))) },
  { title: "Lag of the event loop", series: ["p99"], format: formatMs, of: (old, now) => [ms(quantile(old, now, "everbrook_event_loop_lag_seconds", 0.99))] },
  { title: "Live readers", series: ["SSE", "long-poll"], format: formatNumber, of: (_, now) => [total(now.samples, "everbrook_live_readers", { mode: "sse" }), total(now.samples, "everbrook_live_readers", { mode: "long_poll" })] },
];

const FIGURES = [
  ["Streams", "everbrook_storage_streams", formatNumber], ["Damaged streams", "everbrook_storage_damaged_streams", (count) => (count ? formatNumber(count) : null)], ["Stored in memory", "everbrook_storage_memory_bytes", formatBytes], ["Stored on disk", "everbrook_storage_disk_bytes", formatBytes], ["Journal", "everbrook_journal_bytes", formatBytes], ["Disk free", "everbrook_storage_disk_free_bytes", formatBytes],
  ["Memory", "process_resident_memory_bytes", formatBytes], ["Connections", "everbrook_connections_open", formatNumber], ["Waiting for the disk", "everbrook_commit_pending_changes", formatNumber], ["Subscriptions", "everbrook_subscriptions", formatNumber],
];

export function ServerView({ theme }) {
  const scrapes = useRef([]);
  const points = useRef(CHARTS.map(() => []));
  const [failure, setFailure] = useState(null);
  const [, draw] = useState(0);
  useEvery(POLL_MS, async () => {
    try {
      const samples = parseMetrics(await (await request("/metrics")).text());
      const now = { time: performance.now(), samples }, old = scrapes.current.at(-1);
      scrapes.current = [now];
      if (old) CHARTS.forEach((chart, at) => { points.current[at].push([Date.now(), ...chart.of(old, now)]); if (points.current[at].length > POINTS) points.current[at].shift(); });
      setFailure(null);
    } catch (error) {
      setFailure(error);
    }
    draw((drawn) => drawn + 1);
  }, []);
  const now = scrapes.current.at(-1);
  return html`<section class="status" aria-label="Server"><header class="tools"><h1>Server</h1><span class="dim" role="status">${failure ? "" : now ? "live" : "loading…"}</span></header>
    ${failure && (failure.status === 404 ? html`<p class="empty">This server gives no metrics.</p>` : html`<${Failure} error=${failure} />`)}
    ${now && html`<dl class="figures">${FIGURES.map(([label, name, format]) => { const value = total(now.samples, name), text = value === null ? null : format(value); return text === null ? null : html`<div key=${label}><dt>${label}</dt><dd>${text}</dd></div>`; })}</dl>
      <div class="charts">${CHARTS.map((chart, at) => html`<${Chart} key=${chart.title} title=${chart.title} series=${chart.series} points=${points.current[at]} format=${chart.format} theme=${theme} />`)}</div>`}</section>`;
}
