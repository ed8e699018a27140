// Sessions: a stream of changes as its current table, rows flashing as they change, next to the log.

import { html, useState } from "../../vendor/preact.js";
import { List } from "../parts/list.js";
import { Failure, Text } from "../parts/text.js";
import { formatNumber, formatTime } from "../text.js";
import { useTable } from "./use_table.js";

const FLASH_MS = 900;
const SHOWN = 300;

function columnsOf(rows) {
  const columns = new Map();
  for (const { value } of rows.slice(0, 200)) if (value && typeof value === "object" && !Array.isArray(value)) for (const key of Object.keys(value)) columns.set(key, (columns.get(key) ?? 0) + 1);
  return [...columns].sort((left, right) => right[1] - left[1]).slice(0, 8).map(([key]) => key);
}

const cell = (value) => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value));

// A value as text, made once: it may be large, and is shown with every change of another row.
const textOf = (row) => (row.text ??= cell(row.value));

function cellsOf(row, columns, shape) {
  if (row.shape !== shape) {
    const spread = columns.length && row.value && typeof row.value === "object";
    row.cells = spread ? columns.map((column) => cell(row.value[column]).slice(0, SHOWN)) : [textOf(row).slice(0, SHOWN), ...columns.slice(1).map(() => "")];
    row.shape = shape;
  }
  return row.cells;
}

export function TableView({ name, generation }) {
  const { table, state, error } = useTable(name, null, generation);
  const [type, setType] = useState(null);
  const [filter, setFilter] = useState("");
  const types = [...table.types.keys()];
  const chosen = type !== null && table.types.has(type) ? type : types[0];
  const all = chosen === undefined ? [] : [...table.types.get(chosen).values()];
  const rows = filter ? all.filter((row) => `${row.key} ${textOf(row)}`.toLowerCase().includes(filter.toLowerCase())) : all;
  const columns = columnsOf(rows), shape = columns.join("\n"), now = performance.now(), fresh = state === "live" ? table.settled : Infinity;
  const grid = { gridTemplateColumns: `minmax(0, 1fr) ${columns.length ? columns.map(() => "minmax(0, 1.2fr)").join(" ") : "minmax(0, 3fr)"} 92px` };
  const row = (at) => {
    const each = rows[at];
    const cells = cellsOf(each, columns, shape);
    return html`<span class=${each.touched > fresh && now - each.touched < FLASH_MS ? "cells flash" : "cells"} style=${grid} key=${`${each.key} ${each.offset}`}><b><${Text} text=${each.key.slice(0, 200)} /></b>${cells.map((text, index) => html`<span key=${index}><${Text} text=${text} /></span>`)}<span class="dim">${formatTime(each.time)}</span></span>`;
  };
  return html`<section class="table" aria-label="Current rows"><div class="tools">
      <div class="tabs small" role="tablist" aria-label="Types">${types.map((each) => html`<button key=${each} role="tab" aria-selected=${each === chosen} onClick=${() => setType(each)}><${Text} text=${each} /> <span class="dim">${formatNumber(table.types.get(each).size)}</span></button>`)}</div>
      <input type="search" class="grow" placeholder="Filter rows" aria-label="Filter rows" value=${filter} onInput=${(event) => setFilter(event.target.value)} />
      <span class="dim">${formatNumber(table.changes)} changes${table.invalid ? ` · ${formatNumber(table.invalid)} messages are no changes` : ""} · ${state}</span></div>
    ${error && html`<${Failure} error=${error} />`}
    ${rows.length ? html`<div class="cells head" style=${grid} aria-hidden="true"><b>key</b>${(columns.length ? columns : ["value"]).map((column) => html`<span key=${column}><${Text} text=${column} /></span>`)}<span>changed</span></div>
      <${List} count=${rows.length} rowHeight=${28} row=${row} label="rows" />` : html`<p class="empty">${table.invalid && !table.changes ? "This stream holds no changes: neither State protocol messages nor session events." : "No rows."}</p>`}</section>`;
}
