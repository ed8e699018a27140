// Nothing is chosen: what there is, what moves, and how to begin.

import { html } from "../../vendor/preact.js";
import { idOf } from "../names.js";
import { Text } from "../parts/payload.js";
import { askForToken, root } from "../server.js";
import { counted, formatAgo, formatBytes } from "../text.js";

const KEYS = [["/", "search"], ["n", "new stream"], ["o", "open by path"], ["s", "streams"], ["p", "pipeline"], ["i", "server"], ["t", "theme"], ["↑ ↓", "move in lists"], ["Enter", "open"]];
const NEWEST = 12;

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
  if (catalogue.state === "refused") return html`<section class="welcome"><h1>This server asks who you are</h1><p>${catalogue.error.message}</p><p><button class="primary" onClick=${askForToken}>Give a token or an API key</button></p></section>`;
  if (!catalogue.listed && !catalogue.names.length) return html`<section class="welcome"><h1>This server does not list its streams</h1><p><button class="primary" onClick=${onFind}>Open one by its path</button></p><p class="dim">${root}</p></section>`;
  if (!catalogue.names.length && catalogue.state === "live") return html`<section class="welcome"><h1>No streams yet</h1><p><button class="primary" onClick=${onCreate}>Create one</button> or, at a terminal:</p>
    <pre>everbrook create hello --json\neverbrook append hello '{"hello": "world"}'</pre><p class="dim">${root}</p></section>`;
  const { bytes, newest } = overview(catalogue.entries);
  return html`<section class="welcome"><h1>${counted(catalogue.names.length, "stream")}</h1>
    <p class="dim">${counted(catalogue.buckets.length, "bucket")} · ${formatBytes(bytes)}</p>
    <h2>Written last</h2><ul class="recent">${newest.map((entry) => html`<li key=${entry.name}><a href=${hrefOf(entry.name)}><${Text} text=${idOf(entry.name)} /></a><span class="dim">${told(entry)}</span></li>`)}</ul>
    <h2>Keys</h2><dl class="keys">${KEYS.map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl></section>`;
}
