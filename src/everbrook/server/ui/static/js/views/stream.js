// A stream: what it is, what can be done to it, and its views.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { bucketOf, idOf } from "../names.js";
import { Sparkline } from "../parts/chart.js";
import { Failure, Text } from "../parts/text.js";
import { isBinary, isJson } from "../reading.js";
import { formatBytes, formatNumber } from "../text.js";
import { CloseDialog, DeleteDialog, ForkDialog } from "./actions.js";
import { AppendBox } from "./append.js";
import { Bootstrap, Facts, Producers, Snapshot, Subscriptions } from "./around.js";
import { LogView } from "./log.js";
import { TableView } from "./table.js";
import { useLog } from "./use_log.js";

const TABS = [["log", "Log"], ["table", "Table"], ["snapshot", "Snapshot"], ["bootstrap", "Bootstrap"], ["producers", "Producers"], ["subscriptions", "Subscriptions"], ["facts", "About"]];
// What only some servers know.
const NEEDS = { snapshot: "snapshots", bootstrap: "bootstrap", producers: "frames", subscriptions: "listing" };
const SAID = { live: "live", reading: "reading", connecting: "connecting…", reconnecting: "reconnecting…", closed: "closed", failed: "failed" };

// A stream that was deleted and made anew is another one: it is read anew when the listing tells so.
function useReborn(entry, failed, onReborn) {
  const known = useRef(undefined), born = entry?.created_at_ms;
  useEffect(() => {
    if (born === undefined) return;
    if (failed || (known.current !== undefined && known.current !== born)) onReborn();
    known.current = born;
  }, [born]);
}

export function StreamView({ name, entry, tab, onTab, onOpen, onGone }) {
  const [generation, setGeneration] = useState(0);
  const [dialog, setDialog] = useState(null);
  const [leaving, setLeaving] = useState(false);
  const live = useLog(leaving ? null : name, generation);
  const { about, state, error, rates } = live;
  useReborn(entry, state === "failed" && error?.status === 404, () => setGeneration((before) => before + 1));
  const json = Boolean(about) && isJson(about.contentType);
  const binary = Boolean(about) && isBinary(about.contentType);
  const rate = rates.length ? rates.slice(-5).reduce((sum, each) => sum + each, 0) / 5 : 0;
  const close = () => setDialog(null);
  const tabs = TABS.filter(([id]) => (json || id !== "table") && (!about || !NEEDS[id] || about.extensions.includes(NEEDS[id])));
  const at = tabs.some(([id]) => id === tab) ? tab : "log";
  const view = about && {
    log: () => html`<${LogView} name=${name} live=${live} json=${json} binary=${binary} onFork=${(offset) => setDialog({ kind: "fork", offset })} />`,
    table: () => html`<div class="beside"><${TableView} name=${leaving ? null : name} generation=${generation} /><${LogView} name=${name} live=${live} json=${json} binary=${binary} onFork=${(offset) => setDialog({ kind: "fork", offset })} /></div>`,
    snapshot: () => html`<${Snapshot} name=${name} about=${about} />`,
    bootstrap: () => html`<${Bootstrap} name=${name} json=${json} binary=${binary} />`,
    producers: () => html`<${Producers} name=${name} />`,
    subscriptions: () => html`<${Subscriptions} name=${name} />`,
    facts: () => html`<${Facts} name=${name} about=${about} entry=${entry} />`,
  }[at];
  return html`<article class="stream" aria-label=${`Stream ${idOf(name)}`}>
    <header class="stream-head"><div class="title">${bucketOf(name) !== null ? html`<span class="tag">${bucketOf(name)}</span>` : null}<h1><${Text} text=${idOf(name)} /></h1>
        <span class=${`state ${state}`} role="status">${SAID[state] ?? state}</span></div>
      <div class="numbers"><span>${about ? about.contentType : ""}</span><span>${about && !about.plain ? formatBytes(about.tail - about.earliest) : ""}</span><span>${formatNumber(rate)} messages/s</span><${Sparkline} values=${rates} label=${`messages a second over the last minute, ${formatNumber(rate)} now`} /></div>
      <div class="buttons"><button disabled=${!about} onClick=${() => setDialog({ kind: "fork", offset: null })}>Fork</button><button disabled=${!about || about.closed} onClick=${() => setDialog({ kind: "close" })}>Close</button><button class="danger" disabled=${!about} onClick=${() => setDialog({ kind: "delete" })}>Delete</button></div></header>
    ${error && html`<${Failure} error=${error} onRetry=${state === "failed" ? () => setGeneration(generation + 1) : null} />`}
    <div class="tabs" role="tablist" aria-label="Views">${tabs.map(([id, label]) => html`<button key=${id} role="tab" id=${`tab-${id}`} aria-controls="stream-view" aria-selected=${id === at} onClick=${() => onTab(id)}>${label}</button>`)}</div>
    <div class="view" role="tabpanel" id="stream-view" aria-labelledby=${`tab-${at}`}>${view ? view() : state === "failed" ? null : html`<p class="empty">Loading…</p>`}</div>
    ${about && !about.closed && (at === "log" || at === "table") ? html`<${AppendBox} name=${name} about=${about} json=${json} />` : null}
    ${dialog?.kind === "delete" && html`<${DeleteDialog} name=${name} onLeaving=${setLeaving} onClose=${close} onDone=${onGone} />`}
    ${dialog?.kind === "close" && html`<${CloseDialog} name=${name} onClose=${close} onDone=${() => setGeneration(generation + 1)} />`}
    ${dialog?.kind === "fork" && html`<${ForkDialog} name=${name} offset=${dialog.offset} contentType=${about.contentType} onClose=${close} onDone=${onOpen} />`}</article>`;
}
