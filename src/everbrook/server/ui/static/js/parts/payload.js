// Payloads: a line of one, and all of it. Whatever is in a stream is text here, never markup.

import { html, useMemo, useState } from "../../vendor/preact.js";
import { layOut, tokens, visibleLines } from "../json.js";
import { decode, firstBytes, formatBytes, hexLines, steers } from "../text.js";
import { List } from "./list.js";
import { Text } from "./text.js";

const LINE_BYTES = 600;
const LINE_TOKENS = 80;
const SHOWN_BYTES = 1_000_000;
// No browser scrolls through more pixels than so many lines have.
const HEX_BYTES = 12_000_000;
const PIECE_CHARACTERS = 2000;

const cut = (text) => (text.length > PIECE_CHARACTERS ? `${text.slice(0, PIECE_CHARACTERS)}… (${text.length - PIECE_CHARACTERS} more characters: see the text)` : text);
const piece = (part, at) => html`<span key=${at} class=${`j-${part.kind}`}>${steers(part.text) ? html`<${Text} text=${part.text} />` : part.text}</span>`;

export function Line({ bytes, json, binary }) {
  const short = firstBytes(bytes, LINE_BYTES);
  if (binary) return html`<span class="hex">${Array.from(short.subarray(0, 64), (byte) => byte.toString(16).padStart(2, "0")).join(" ")}${bytes.length > 64 ? " …" : ""}</span>`;
  const { text } = decode(short);
  const more = bytes.length > LINE_BYTES ? "…" : "";
  if (json) return html`${tokens(text, LINE_TOKENS).map((part, at) => piece(part.kind === "comma" || part.kind === "colon" ? { ...part, text: `${part.text} ` } : part, at))}${more}`;
  return html`<${Text} text=${text} />${more}`;
}

function Json({ text }) {
  const lines = useMemo(() => layOut(text), [text]);
  const [folded, setFolded] = useState(() => new Set());
  const shown = useMemo(() => visibleLines(lines, folded), [lines, folded]);
  const toggle = (at) => {
    const next = new Set(folded);
    if (!next.delete(at)) next.add(at);
    setFolded(next);
  };
  const foldAll = () => setFolded(new Set(lines.flatMap((line, at) => (at && line.end !== undefined ? [at] : []))));
  const row = (index) => {
    const at = shown[index], line = lines[at], closed = folded.has(at);
    const parts = closed ? [...line.parts, { kind: "folded", text: "…" }, ...lines[line.end].parts] : line.parts;
    const handle = line.end === undefined ? html`<span class="fold"></span>` : html`<button class="fold" aria-expanded=${!closed} aria-label=${closed ? "unfold" : "fold"} onClick=${() => toggle(at)}>${closed ? "▸" : "▾"}</button>`;
    return html`<span class="jline" style=${{ paddingLeft: `${line.depth * 14}px` }}>${handle}${parts.map((part, place) => piece({ ...part, text: cut(part.text) }, place))}</span>`;
  };
  return html`<div class="json"><div class="tools"><button onClick=${foldAll}>Fold all</button><button onClick=${() => setFolded(new Set())}>Unfold all</button></div>
    <${List} count=${shown.length} rowHeight=${20} row=${row} label="document" role="list" /></div>`;
}

const Hex = ({ bytes }) => {
  const lines = Math.ceil(Math.min(bytes.length, HEX_BYTES) / 16);
  return html`<${List} count=${lines} rowHeight=${20} label="bytes" role="list" row=${(at) => html`<code class="hexline">${hexLines(bytes, at * 16, 1)[0]}</code>`} />`;
};

function PlainText({ text }) {
  const [wrap, setWrap] = useState(true);
  return html`<div class="plain"><div class="tools"><label><input type="checkbox" checked=${wrap} onChange=${() => setWrap(!wrap)} /> wrap lines</label></div>
    <pre class=${wrap ? "wrap" : ""} tabindex="0"><${Text} text=${text} /></pre></div>`;
}

export function Payload({ bytes, json, binary }) {
  const { text, valid } = useMemo(() => decode(firstBytes(bytes, SHOWN_BYTES)), [bytes]);
  const [form, setForm] = useState(null);
  const chosen = form ?? (binary || !valid ? "hex" : json ? "json" : "text");
  const most = chosen === "hex" ? HEX_BYTES : SHOWN_BYTES;
  const forms = json ? ["json", "text", "hex"] : ["text", "hex"];
  return html`<div class="payload">
    <div class="tabs small" role="tablist" aria-label="form">${forms.map((each) => html`<button key=${each} role="tab" aria-selected=${each === chosen} onClick=${() => setForm(each)}>${each === "json" ? "JSON" : each === "hex" ? "Hex" : "Text"}</button>`)}
      <span class="dim">${formatBytes(bytes.length)}${valid ? "" : " · not UTF-8"}${bytes.length > most ? ` · the first ${formatBytes(most)} are shown` : ""}</span></div>
    ${chosen === "hex" ? html`<${Hex} bytes=${bytes} />` : chosen === "json" ? html`<${Json} text=${text} />` : html`<${PlainText} text=${text} />`}</div>`;
}
