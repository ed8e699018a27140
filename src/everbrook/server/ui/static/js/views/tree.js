// The streams as a tree: the base surface by path, then the buckets. Search shows what matches, without the tree.

import { html, useEffect, useMemo, useState } from "../../vendor/preact.js";
import { BASE, BUCKETS, idOf, rootOf } from "../names.js";
import { elsewhere } from "../server.js";
import { List } from "../parts/list.js";
import { Text } from "../parts/payload.js";
import { countBelow, treeRows } from "../tree_rows.js";
import { counted, formatAgo, formatBytes, formatNumber, formatSpan } from "../text.js";

const MAX_FOUND = 10_000;
const NOTHING = new Set();

// The folders above a stream.
function foldersOf(name) {
  const root = rootOf(name), segments = idOf(name).split("/").slice(0, -1);
  const below = segments.map((_, at) => `${root}${segments.slice(0, at + 1).join("/")}/`);
  return root === BASE ? below : root === "/" ? [] : [root];
}

function surfaceRows(catalogue, open) {
  const rows = treeRows(catalogue.names, open, BASE);
  for (const { bucket_id: id } of catalogue.buckets) {
    const folder = `${BUCKETS}${id}/`;
    rows.push({ folder, label: id, depth: 0, count: countBelow(catalogue.names, folder), open: open.has(folder), bucket: true });
    if (open.has(folder)) treeRows(catalogue.names, NOTHING, folder, 1, rows);
  }
  // Another server may have streams anywhere.
  if (elsewhere) for (const name of catalogue.names) if (rootOf(name) === "/") rows.push({ name, label: name, depth: 0 });
  return rows;
}

function foundRows(catalogue, words) {
  const rows = [];
  for (const name of catalogue.names) {
    if (words.every((word) => name.toLowerCase().includes(word))) rows.push({ name, label: name.startsWith(BASE) ? idOf(name) : name.slice(BUCKETS.length), depth: 0 });
    if (rows.length >= MAX_FOUND) break;
  }
  return rows;
}

function lifeLeft(entry, now) {
  if (entry?.expires_at_ms) return [formatSpan((entry.expires_at_ms - now) / 1000), "left until it expires"];
  // Reads put it off too, and are not told of: this is the least.
  if (entry?.ttl_secs) return [formatSpan(Math.max(0, entry.ttl_secs - (now - entry.last_write_at_ms) / 1000)), `left, unless it is used; each use gives it ${formatSpan(entry.ttl_secs)}`];
  return null;
}

function StreamRow({ entry, row, catalogue }) {
  const rate = entry ? catalogue.rate(entry) : 0, life = lifeLeft(entry, Date.now()), state = entry?.status ?? "";
  return html`<span class="stream-row" style=${{ paddingLeft: `${row.depth * 14 + 18}px` }}>
    <span class=${`dot ${state === "Open" ? "open" : state === "Closed" ? "closed" : "damaged"}`} title=${state}></span>${state === "Open" ? null : html`<span class="hidden">${state} </span>`}
    <span class="label"><${Text} text=${row.label} /></span>
    ${life && html`<span class="tag" title=${life.join(" ")}>${life[0]}</span>`}
    ${rate > 0 ? html`<span class="rate">${formatBytes(rate)}/s</span>` : null}
    <span class="size" title=${entry ? `last written ${formatAgo(entry.last_write_at_ms)}` : ""}>${entry?.size_bytes === undefined ? "" : formatBytes(entry.size_bytes)}</span></span>`;
}

const FolderRow = ({ row }) => html`<span class="folder-row" style=${{ paddingLeft: `${row.depth * 14}px` }}>
  <span class="twist" aria-hidden="true">${row.open ? "▾" : "▸"}</span><span class="label"><${Text} text=${row.label} /></span>
  ${row.bucket ? html`<span class="tag">bucket</span>` : null}<span class="size">${formatNumber(row.count)}</span></span>`;

export function Tree({ catalogue, selected, onOpen, onCreate, onFind }) {
  const [search, setSearch] = useState("");
  const [open, setOpen] = useState(() => new Set());
  const [at, setAt] = useState(-1);
  useEffect(() => { if (selected) setOpen((before) => new Set([...before, ...foldersOf(selected)])); }, [selected]);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = useMemo(() => (words.length ? foundRows(catalogue, words) : surfaceRows(catalogue, open)), [catalogue, search, open, catalogue.shape]);
  const placed = useMemo(() => rows.findIndex((row) => row.name === selected), [rows, selected]);
  const choose = (index) => {
    const row = rows[index];
    if (!row) return;
    setAt(index);
    if (row.name) { onOpen(row.name); return; }
    const next = new Set(open);
    if (!next.delete(row.folder)) next.add(row.folder);
    setOpen(next);
  };
  const current = at >= 0 && rows[at] && (rows[at].folder || rows[at].name === selected) ? at : placed;
  const writing = catalogue.names.length <= MAX_FOUND ? catalogue.names.reduce((sum, name) => sum + (catalogue.rate(catalogue.entries.get(name)) > 0), 0) : null;
  return html`<nav class="tree" aria-label="Streams">
    <div class="tree-tools"><input type="search" id="search" placeholder="Search streams  /" aria-label="Search streams" value=${search} onInput=${(event) => setSearch(event.target.value)} />
      <button class="primary" onClick=${onCreate} title="Create a stream">New</button><button onClick=${onFind} title="Open a stream by its path">Open…</button></div>
    <${List} count=${rows.length} rowHeight=${28} label="streams" selected=${current} onSelect=${choose} onOpen=${choose}
      row=${(index) => (rows[index].name ? html`<${StreamRow} row=${rows[index]} entry=${catalogue.entries.get(rows[index].name)} catalogue=${catalogue} />` : html`<${FolderRow} row=${rows[index]} />`)} />
    <span class="hidden" role="status">${words.length ? `${counted(rows.length, "stream")} found` : ""}</span>
    <div class="tree-foot">${counted(catalogue.names.length, "stream")}${writing ? ` · ${formatNumber(writing)} being written` : ""}${words.length ? ` · ${formatNumber(rows.length)}${rows.length >= MAX_FOUND ? "+" : ""} found` : ""}${catalogue.state === "loading" ? " · loading" : ""}${catalogue.error ? html` · <span class="error">${catalogue.error.message}</span>` : null}</div></nav>`;
}
