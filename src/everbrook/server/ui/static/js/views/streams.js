// All streams: a tree of them, the base surface by path, then the buckets; and while none of them is open, what there
// is, what moves, and how to begin. Search shows what matches, without the tree.

import { html, useEffect, useMemo, useState } from "../../vendor/preact.js";
import { BASE, BUCKETS, idOf, rootOf } from "../names.js";
import { List } from "../parts/list.js";
import { Text } from "../parts/text.js";
import { askForToken, elsewhere, root } from "../server.js";
import { counted, formatAgo, formatBytes, formatNumber, formatSpan } from "../text.js";

const MAX_FOUND = 10_000;
const NEWEST = 12;
const NOTHING = new Set();

// The place of the first name that is not before a text.
function lowerBound(names, text) {
  let low = 0, high = names.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (names[middle] < text) low = middle + 1;
    else high = middle;
  }
  return low;
}

// "0" is what comes after "/": the end of everything that a prefix with a slash at its end begins.
const endOf = (names, folder) => lowerBound(names, `${folder.slice(0, -1)}0`);

const countBelow = (names, folder) => endOf(names, folder) - lowerBound(names, folder);

// Names are in order: what a folder holds is skipped over, not walked through.
function treeRows(names, open, prefix, depth = 0, rows = []) {
  const end = endOf(names, prefix);
  for (let at = lowerBound(names, prefix); at < end; ) {
    const rest = names[at].slice(prefix.length), slash = rest.indexOf("/");
    if (slash < 0) { rows.push({ name: names[at], label: rest, depth }); at++; continue; }
    const folder = prefix + rest.slice(0, slash + 1), after = endOf(names, folder);
    rows.push({ folder, label: rest.slice(0, slash + 1), depth, count: after - at, open: open.has(folder) });
    if (open.has(folder)) treeRows(names, open, folder, depth + 1, rows);
    at = after;
  }
  return rows;
}

// The folders above a stream.
function foldersOf(name) {
  const top = rootOf(name), segments = idOf(name).split("/").slice(0, -1);
  const below = segments.map((_, at) => `${top}${segments.slice(0, at + 1).join("/")}/`);
  return top === BASE ? below : top === "/" ? [] : [top];
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

const KEYS = [["/", "search"], ["n", "new stream"], ["o", "open by path"], ["s", "streams"], ["p", "pipeline"], ["i", "server"], ["t", "theme"], ["↑ ↓", "move in lists"], ["Enter", "open"]];

// One pass over what may be very many: their bytes, and those that were written last.
function overview(entries) {
  let bytes = 0;
  const newest = [];
  for (const entry of entries.values()) {
    bytes += entry.size_bytes ?? 0;
    const time = entry.last_write_at_ms ?? 0;
    if (newest.length === NEWEST && time <= (newest.at(-1).last_write_at_ms ?? 0)) continue;
    const place = newest.findIndex((each) => (each.last_write_at_ms ?? 0) < time);
    newest.splice(place < 0 ? newest.length : place, 0, entry);
    if (newest.length > NEWEST) newest.pop();
  }
  return { bytes, newest };
}

const told = (entry) => [entry.content_type, entry.size_bytes !== undefined && formatBytes(entry.size_bytes), entry.last_write_at_ms && formatAgo(entry.last_write_at_ms)].filter(Boolean).join(" · ");

export function Welcome({ catalogue, hrefOf, onCreate, onFind }) {
  if (catalogue.state === "refused") return html`<section class="welcome"><h1>This server demands a token</h1><p>${catalogue.error.message}</p><p><button class="primary" onClick=${askForToken}>Give a token or an API key</button></p></section>`;
  if (!catalogue.listed && !catalogue.names.length) return html`<section class="welcome"><h1>This server does not list its streams</h1><p><button class="primary" onClick=${onFind}>Open one by its path</button></p><p class="dim">${root}</p></section>`;
  if (!catalogue.names.length && catalogue.state === "live") return html`<section class="welcome"><h1>No streams yet</h1><p><button class="primary" onClick=${onCreate}>Create one</button> or, at a terminal:</p>
    <pre>everbrook create hello --json\neverbrook append hello '{"hello": "world"}'</pre><p class="dim">${root}</p></section>`;
  const { bytes, newest } = overview(catalogue.entries);
  return html`<section class="welcome"><h1>${counted(catalogue.names.length, "stream")}</h1>
    <p class="dim">${counted(catalogue.buckets.length, "bucket")} · ${formatBytes(bytes)}</p>
    <h2>Written last</h2><ul class="recent">${newest.map((entry) => html`<li key=${entry.name}><a href=${hrefOf(entry.name)}><${Text} text=${idOf(entry.name)} /></a><span class="dim">${told(entry)}</span></li>`)}</ul>
    <h2>Keys</h2><dl class="keys">${KEYS.map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl></section>`;
}
