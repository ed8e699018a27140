// The pipeline: its jobs with their state, pace, lag and last error, from the stream that they tell it to.

import { html, useRef, useState } from "../../vendor/preact.js";
import { BASE, idOf } from "../names.js";
import { Chart } from "../parts/chart.js";
import { Failure, Text } from "../parts/text.js";
import { formatAgo, formatBytes, formatNumber } from "../text.js";
import { useTable } from "./use_table.js";

const POINTS = 600;
const GONE_MS = 20_000;

function JobRow({ job, chosen, onChoose }) {
  return html`<tr class=${chosen ? "selected" : ""} aria-selected=${chosen} tabindex="0" onClick=${onChoose} onKeyDown=${(event) => event.key === "Enter" && onChoose()}><td><b><${Text} text=${String(job.job)} /></b><br /><span class="dim"><${Text} text=${String(job.what ?? "")} /></span></td>
    <td><span class=${`state ${job.state}`}>${job.state}</span></td><td>${formatNumber(job.rows_per_second)}</td><td>${formatNumber(job.rows)}</td><td>${job.batch_ms == null ? "–" : `${formatNumber(job.batch_ms)} ms`}</td><td>${job.lag_bytes == null ? "–" : formatBytes(job.lag_bytes)}</td><td>${formatNumber(job.restarts)}</td><td>${formatNumber(job.dead_letters)}</td><td class="error"><${Text} text=${String(job.error ?? "").slice(0, 300)} /></td></tr>`;
}

function Charts({ points, job, theme }) {
  const series = ["rows/s", "batch ms", "lag"];
  const pick = (at) => points.map((point) => [point[0], point[at + 1]]);
  return html`<div class="charts"><${Chart} title=${`${job}: rows per second`} series=${[series[0]]} points=${pick(0)} format=${formatNumber} theme=${theme} />
    <${Chart} title="Time of a batch, ms" series=${[series[1]]} points=${pick(1)} format=${formatNumber} theme=${theme} /><${Chart} title="Lag" series=${[series[2]]} points=${pick(2)} format=${formatBytes} theme=${theme} /></div>`;
}

export function PipelineView({ theme, catalogue }) {
  const [name, setName] = useState(`${BASE}pipeline-progress`);
  const [chosen, setChosen] = useState(null);
  const history = useRef(new Map());
  const note = (message, time) => {
    const job = message?.type === "job" && message.value;
    if (!job || typeof job !== "object") return;
    const points = history.current.get(job.job) ?? history.current.set(job.job, []).get(job.job);
    points.push([Number.isFinite(time) ? time : Date.now(), job.rows_per_second, job.batch_ms, job.lag_bytes]);
    if (points.length > POINTS) points.shift();
  };
  // Where not all streams are told of, it may be there all the same.
  const there = catalogue.entries.has(name) || catalogue.state === "refused" || !catalogue.listed;
  const { table, state, error } = useTable(there ? name : null, note);
  const missing = (!there && catalogue.state !== "loading") || error?.status === 404;
  const jobs = [...(table.types.get("job")?.values() ?? [])].map((row) => row.value).filter((value) => value && typeof value === "object");
  const runner = table.types.get("runner")?.get("runner")?.value;
  const beat = runner ? Date.parse(runner.heartbeat_at) : NaN;
  const gone = runner && (runner.ended || Date.now() - beat > GONE_MS);
  const job = jobs.some((each) => each.job === chosen) ? chosen : jobs[0]?.job;
  return html`<section class="pipeline" aria-label="Pipeline"><header class="tools"><h1>Pipeline</h1><label>Progress stream <input value=${idOf(name)} onChange=${(event) => { history.current.clear(); setName(BASE + event.target.value); }} /></label>
      <span class="dim" role="status">${runner ? (gone ? `nobody runs it: last heard of ${formatAgo(beat)}` : `run by process ${runner.pid} on ${runner.host}`) : state}</span></header>
    ${missing ? html`<p class="empty">There is no progress stream of this name. <code>everbrook pipeline run</code> and <code>everbrook up</code> make one.</p>` : null}
    ${error && !missing ? html`<${Failure} error=${error} />` : null}
    ${jobs.length ? html`<div class="scroll"><table><thead><tr><th>job</th><th>state</th><th>rows/s</th><th>rows</th><th>batch</th><th>lag</th><th>restarts</th><th>dead letters</th><th>last error</th></tr></thead>
      <tbody>${jobs.map((each) => html`<${JobRow} key=${each.job} job=${each} chosen=${each.job === job} onChoose=${() => setChosen(each.job)} />`)}</tbody></table></div>
      <${Charts} key=${job} job=${job} points=${history.current.get(job) ?? []} theme=${theme} />` : null}</section>`;
}
