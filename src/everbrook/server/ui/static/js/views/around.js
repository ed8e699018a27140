// What is around a stream: its facts, snapshot, bootstrap, producers and subscriptions.

import { html, useState } from "../../vendor/preact.js";
import { controlPath, formatOffset, idOf, partPath } from "../names.js";
import { useEvery, useToken, useWork } from "../parts/hooks.js";
import { multipart, readSome } from "../multipart.js";
import { Line, Payload } from "../parts/payload.js";
import { Failure, Text } from "../parts/text.js";
import { isBinary, isJson } from "../reading.js";
import { getJson, request } from "../server.js";
import { counted, formatAgo, formatBytes, formatNumber, formatSpan } from "../text.js";

const MAX_BOOTSTRAP_BYTES = 2_000_000;
const MAX_PARTS = 200;

export function Facts({ name, about, entry }) {
  const facts = [
    ["Path", name], ["Content type", about.contentType], ["State", about.closed ? "closed" : "open"],
    ["Tail", about.plain ? about.tailText : formatOffset(about.tail)], ["Earliest kept", about.plain ? "–" : formatOffset(about.earliest)],
    ["Snapshot at", about.snapshot === null ? "none" : formatOffset(about.snapshot)],
    ["Size", entry ? formatBytes(entry.size_bytes) : "–"],
    ["Created", entry ? new Date(entry.created_at_ms).toLocaleString() : "–"], ["Last written", entry ? formatAgo(entry.last_write_at_ms) : "–"],
    ["Time to live", about.ttl === null ? "none" : `${formatSpan(about.ttl)} after the last use`], ["Expires", about.expiresAt ?? "never"], ["Retention", about.retention ?? "everything"],
  ];
  return html`<dl class="facts">${facts.map(([term, fact]) => html`<div key=${term}><dt>${term}</dt><dd><${Text} text=${String(fact)} /></dd></div>`)}</dl>`;
}

function useFetched(load, dependencies) {
  const [fetched, setFetched] = useState({ loading: true });
  const given = useToken();
  useWork(async (signal) => {
    setFetched({ loading: true });
    try {
      const value = await load(signal);
      if (!signal.aborted) setFetched({ value });
    } catch (error) {
      if (!signal.aborted) setFetched({ error });
    }
  }, [...dependencies, given]);
  return fetched;
}

const Outcome = ({ fetched, none, children }) => {
  if (fetched.loading) return html`<p class="empty">Loading…</p>`;
  if (fetched.error) return fetched.error.status === 404 ? html`<p class="empty">${none}</p>` : html`<${Failure} error=${fetched.error} />`;
  return children(fetched.value);
};

export function Snapshot({ name, about }) {
  const [turn, setTurn] = useState(0);
  const fetched = useFetched(async (signal) => {
    const response = await request(partPath(name, "snapshot"), { signal });
    return { type: response.headers.get("Content-Type") ?? "", digest: response.headers.get("Content-Digest"), bytes: new Uint8Array(await response.arrayBuffer()), offset: response.url.split("/").at(-1) };
  }, [name, about.snapshot, turn]);
  return html`<div class="around"><div class="tools"><button onClick=${() => setTurn(turn + 1)}>Refresh</button></div><${Outcome} fetched=${fetched} none="This stream has no snapshot. One stands for the messages before its offset, so that new readers need not read them.">
    ${(snapshot) => html`<p class="dim">Stands for everything before ${snapshot.offset} · ${snapshot.type} · ${snapshot.digest ?? ""}</p><${Payload} bytes=${snapshot.bytes} json=${isJson(snapshot.type)} binary=${isBinary(snapshot.type)} />`}</${Outcome}></div>`;
}

const boundaryOf = (response) => /boundary="?([^";]+)/.exec(response.headers.get("Content-Type") ?? "")?.[1] ?? "";

export function Bootstrap({ name, json, binary }) {
  const [turn, setTurn] = useState(0);
  const fetched = useFetched(async (signal) => {
    const response = await request(partPath(name, "bootstrap"), { signal });
    const { bytes, whole } = await readSome(response, MAX_BOOTSTRAP_BYTES);
    return { parts: multipart(bytes, boundaryOf(response), MAX_PARTS + 1), whole, read: bytes.length, snapshot: response.headers.get("Stream-Snapshot-Offset"), next: response.headers.get("Stream-Next-Offset") };
  }, [name, turn]);
  return html`<div class="around"><div class="tools"><button onClick=${() => setTurn(turn + 1)}>Refresh</button></div><${Outcome} fetched=${fetched} none="There is no such stream.">
    ${({ parts, whole, read, snapshot, next }) => html`<p class="dim">What a new reader gets: ${snapshot === null || snapshot === "-1" ? "no snapshot" : `the snapshot at ${snapshot}`}, then ${whole && parts.length <= MAX_PARTS ? counted(Math.max(0, parts.length - 1), "message") : `messages, of which the first ${formatNumber(Math.min(parts.length, MAX_PARTS) - 1)} are shown (${formatBytes(read)} were read)`}, and follows from ${next}.</p>
      <ol class="parts" tabindex="0" aria-label="Parts">${parts.slice(0, MAX_PARTS).map((part, at) => html`<li key=${at}><b>${at ? `message ${at}` : "snapshot"}</b> <code><${Line} bytes=${part.bytes} json=${at ? json : isJson(part.type)} binary=${at ? binary : isBinary(part.type)} /></code></li>`)}</ol>`}</${Outcome}></div>`;
}

export function Producers({ name }) {
  const [known, setKnown] = useState({ loading: true });
  useEvery(2000, () => getJson(partPath(name, "producers")).then((value) => setKnown({ value }), (error) => setKnown({ error })), [name]);
  return html`<div class="around"><${Outcome} fetched=${known} none="This server does not list producers.">
    ${({ producer_count: count, producers }) => (count ? html`<p class="dim">${formatNumber(count)} idempotent producers</p><table><thead><tr><th>producer</th><th>epoch</th><th>sequence</th><th>last append</th></tr></thead>
      <tbody>${producers.map((each) => html`<tr key=${each.producer_id}><td><${Text} text=${each.producer_id} /></td><td>${each.epoch}</td><td>${each.seq}</td><td>${formatAgo(each.last_append_at_ms)}</td></tr>`)}</tbody></table>` : html`<p class="empty">No idempotent producer has written to this stream.</p>`)}</${Outcome}></div>`;
}

export function Subscriptions({ name }) {
  const [known, setKnown] = useState({ loading: true });
  useEvery(3000, () => getJson(controlPath(name, `subscriptions?stream=${encodeURIComponent(idOf(name))}`)).then((value) => setKnown({ value }), (error) => setKnown({ error })), [name]);
  return html`<div class="around"><${Outcome} fetched=${known} none="This server does not list subscriptions.">
    ${({ subscription_count: count, subscriptions }) => (count ? html`<table><thead><tr><th>subscription</th><th>type</th><th>pattern</th><th>processed up to</th><th>state</th></tr></thead>
      <tbody>${subscriptions.map((each) => html`<tr key=${each.subscription_id}><td><${Text} text=${each.subscription_id} /></td><td>${each.type}</td><td><${Text} text=${each.pattern ?? "–"} /></td><td>${each.acked_offset ?? "nothing"}</td><td>${each.status}${each.awake ? ", woken" : ""}</td></tr>`)}</tbody></table>` : html`<p class="empty">No subscription is woken by this stream.</p>`)}</${Outcome}></div>`;
}
