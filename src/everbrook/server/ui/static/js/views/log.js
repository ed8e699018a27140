// The log: messages with their offsets and times, as they come.

import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { useRedraw } from "../parts/hooks.js";
import { List } from "../parts/list.js";
import { Line, Payload } from "../parts/payload.js";
import { Search } from "../search.js";
import { counted, formatBytes, formatNumber, formatTime } from "../text.js";
import { CopyButton, curlOf, pythonOf } from "./copying.js";

const KEPT_ROWS = 1000;

// Searched a slice at a time, between frames; what was found so far is shown meanwhile.
function useSearch(log, word, count) {
  const redraw = useRedraw();
  const search = useMemo(() => (log && word ? new Search(log, word) : null), [log, word]);
  const searching = useRef(false);
  useEffect(() => {
    if (!search) return undefined;
    let timer = 0;
    const look = () => { searching.current = search.advance(count); redraw(); if (searching.current) timer = setTimeout(look, 0); };
    look();
    return () => clearTimeout(timer);
  }, [search, count, search?.log.start]);
  return [search, searching.current];
}

function Jump({ onJump, plain }) {
  const [text, setText] = useState("");
  const jump = (event) => {
    event.preventDefault();
    const asked = text.trim();
    if (/^\d+$/.test(asked) || (plain && asked)) onJump({ kind: "offset", offset: Number(asked), text: plain ? asked : undefined });
    else if (asked && !Number.isNaN(Date.parse(asked))) onJump({ kind: "time", at: Date.parse(asked) });
  };
  return html`<form class="jump" onSubmit=${jump}><input aria-label="Jump to an offset or a time" placeholder="Jump to offset or time" value=${text} onInput=${(event) => setText(event.target.value)} /></form>`;
}

function Detail({ name, message, json, binary, onClose, onFork }) {
  return html`<section class="detail" aria-label="Message"><header><strong>${message.label}</strong>
      <span class="dim">${Number.isFinite(message.time) ? new Date(message.time).toISOString() : ""}</span><span class="grow"></span>
      <${CopyButton} label="Copy as curl" text=${() => curlOf(name, message)} /><${CopyButton} label="Copy as Python" text=${() => pythonOf(name, message)} />
      ${message.until && html`<button onClick=${() => onFork(message.until)}>Fork here</button>`}<button aria-label="Close message" onClick=${onClose}>✕</button></header>
    <${Payload} bytes=${message.bytes} json=${json} binary=${binary} key=${message.offset} /></section>`;
}

// Rows that were drawn are drawn again by handing over the same thing: nothing of them is compared.
function useRows(log, json, binary) {
  const drawn = useMemo(() => new Map(), [log, json, binary]);
  return ({ offset, label, time, bytes }) => {
    const old = drawn.get(offset);
    if (old) return old;
    if (drawn.size > KEPT_ROWS) drawn.clear();
    const fresh = html`<span class="message"><span class="offset">${label}</span><span class="time">${formatTime(time)}</span><span class="line"><${Line} bytes=${bytes} json=${json} binary=${binary} /></span></span>`;
    drawn.set(offset, fresh);
    return fresh;
  };
}

const emptyWords = (search, searching, state) =>
  search ? (searching ? "Searching…" : "Nothing that is shown has this.") : state === "closed" ? "The stream is empty, and closed." : state === "failed" ? "" : "No messages yet. They appear here as they come.";

export function LogView({ name, live, json, binary, onFork }) {
  const { log, about, paused, shift, earlier, later, pause, jump, state, from, lost, dropped } = live;
  const [chosen, setChosen] = useState(null);
  const [word, setWord] = useState("");
  const [stick, setStick] = useState(true);
  const [held, setHeld] = useState(null);
  const all = log?.count ?? 0;
  // What is held stays, wherever memory lets go of what came before it.
  const heldCount = held === null ? all : Math.max(0, Math.min(all, held - dropped));
  const count = paused ? heldCount : all;
  const [search, searching] = useSearch(log, word.trim(), count);
  const shown = search ? search.found.length : count;
  const draw = useRows(log, json, binary);
  const message = (index) => log.message(search ? log.find(search.found[index]) : index);
  const toggle = () => { setHeld(paused ? null : all + (dropped ?? 0)); pause(!paused); };
  const go = (given) => { setChosen(null); setStick(given.kind === "tail"); setHeld(null); pause(false); jump(given); };
  useEffect(() => setChosen(null), [log]);
  const place = chosen === null || !log ? -1 : search ? search.place(chosen.offset) : log.find(chosen.offset);
  const selected = place >= 0 && place < shown && message(place).offset === chosen.offset ? place : -1;
  const sticks = stick && !paused && !search && chosen === null && state !== "reading";
  return html`<section class="log" aria-label="Messages"><div class="tools">
      <button aria-pressed=${paused} onClick=${toggle}>${paused ? "Resume" : "Pause"}</button>
      <button onClick=${() => go({ kind: "beginning" })} aria-pressed=${from.kind === "beginning"}>From the beginning</button>
      <button onClick=${() => go({ kind: "tail" })} aria-pressed=${from.kind === "tail"}>Latest</button>
      <${Jump} onJump=${go} plain=${about?.plain} />
      <input type="search" class="grow" aria-label="Search in what is shown" placeholder="Search in what is shown" value=${word} onInput=${(event) => setWord(event.target.value)} />
      <span class="dim count">${search ? `${formatNumber(shown)} found` : counted(shown, "message")}${paused && all > heldCount ? ` · ${formatNumber(all - heldCount)} new` : ""}${lost ? ` · ${formatBytes(lost)} were cut off before they were seen` : ""}</span></div>
    <div class=${chosen ? "split" : "whole"}>
      ${!log ? html`<p class="empty">${state === "failed" ? "" : "Loading…"}</p>` : !shown ? html`<p class="empty">${emptyWords(search, searching, state)}</p>`
        : html`<${List} key=${`${from.kind} ${from.offset ?? from.at ?? ""}`} count=${shown} rowHeight=${24} row=${(index) => draw(message(index))} label="messages" selected=${selected} shift=${search ? null : shift}
            onSelect=${(index) => setChosen(message(index))} stick=${sticks} onStick=${setStick} onNearTop=${search ? null : earlier} onNearEnd=${search ? null : later} />`}
      ${chosen && html`<${Detail} name=${name} message=${chosen} json=${json} binary=${binary} onClose=${() => setChosen(null)} onFork=${onFork} />`}</div></section>`;
}
