// The page: where it is (in the address, so that it can be shared), what stays in sight, and the keyboard.

import { html, render, useEffect, useLayoutEffect, useMemo, useState } from "../vendor/preact.js";
import { beginCatalogue } from "./catalogue.js";
import { useRedraw, useStored, useToken } from "./parts/hooks.js";
import { Failure } from "./parts/text.js";
import { idOf } from "./names.js";
import { onTokenAsked, root, token } from "./server.js";
import { Tree, Welcome } from "./views/streams.js";

// What is fetched when it is first shown, so that the first view need not wait for all of them.
// A browser may remember that a module did not come, so each further try asks under an address of its own.
function later(load, name, meanwhile = null) {
  let found = null;
  let tries = 0;
  return function Later(props) {
    const [error, settle] = useState(null);
    const fetchIt = () => load(tries++ ? `?again=${tries}` : "").then((module) => { found = module[name]; settle(undefined); }, () => settle(new Error("the server does not give this part of its page")));
    useLayoutEffect(() => { if (!found) fetchIt(); }, []);
    if (found) return html`<${found} ...${props} />`;
    return error ? html`<${Failure} error=${error} onRetry=${fetchIt} />` : meanwhile;
  };
}

const LOADING = html`<p class="empty">Loading…</p>`;
const StreamView = later((again) => import(`./views/stream.js${again}`), "StreamView", LOADING);
const PipelineView = later((again) => import(`./views/pipeline.js${again}`), "PipelineView", LOADING);
const ServerView = later((again) => import(`./views/status.js${again}`), "ServerView", LOADING);
const [CreateDialog, OpenDialog, TokenDialog] = ["CreateDialog", "OpenDialog", "TokenDialog"].map((name) => later((again) => import(`./views/actions.js${again}`), name));

const THEMES = ["system", "light", "dark"];
const PAGES = [["streams", "Streams"], ["pipeline", "Pipeline"], ["server", "Server"]];

// "#/streams", "#/stream/<path>?tab=log", "#/pipeline", "#/server"
function parseHash() {
  const [path, query] = location.hash.slice(1).split("?");
  const tab = new URLSearchParams(query).get("tab") ?? "log";
  if (path.startsWith("/stream/")) return { page: "streams", name: decoded(path.slice("/stream".length)), tab };
  const page = path.slice(1) || "streams";
  return { page: PAGES.some(([id]) => id === page) ? page : "streams", name: null, tab };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

const streamHash = (name, tab = "log") => `#/stream${name.split("/").map(encodeURIComponent).join("/")}${tab === "log" ? "" : `?tab=${tab}`}`;

function usePlace() {
  const [place, setPlace] = useState(parseHash);
  useLayoutEffect(() => {
    const follow = () => setPlace(parseHash());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return [place, (hash) => { location.hash = hash; }];
}

function useCatalogue() {
  const redraw = useRedraw();
  const given = useToken();
  const catalogue = useMemo(beginCatalogue, [given]);
  useLayoutEffect(() => { catalogue.onChange = redraw; return () => catalogue.end(); }, [catalogue]);
  return catalogue;
}

function applyTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

// At once, not after the next frame: a key that is pressed as soon as the page stands counts.
function useKeys(actions) {
  useLayoutEffect(() => {
    const press = (event) => {
      if (event.target.closest?.("input, textarea, select, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
      const action = actions[event.key];
      if (action) { event.preventDefault(); action(); }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
}

function App() {
  const [place, go] = usePlace();
  const catalogue = useCatalogue();
  const [theme, setTheme] = useStored("theme", "system");
  const [dialog, setDialog] = useState(null);
  useLayoutEffect(() => applyTheme(theme), [theme]);
  useLayoutEffect(() => onTokenAsked(() => setDialog("token")), []);
  useEffect(() => catalogue.note(place.name), [catalogue, catalogue.listed, place.name]);
  useEffect(() => { document.title = `${place.name ? idOf(place.name) : PAGES.find(([id]) => id === place.page)[1]} · Everbrook`; }, [place]);
  useKeys({
    "/": () => document.getElementById("search")?.focus(),
    n: () => setDialog("create"), o: () => setDialog("open"), s: () => go("#/streams"), p: () => go("#/pipeline"), i: () => go("#/server"),
    t: () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]),
    // One that is there hears it itself; this is for one that is still on its way.
    ...(dialog && { Escape: () => setDialog(null) }),
  });
  const open = (name) => go(streamHash(name));
  const main = place.page === "pipeline" ? html`<${PipelineView} theme=${theme} catalogue=${catalogue} />`
    : place.page === "server" ? html`<${ServerView} theme=${theme} />`
    : place.name ? html`<${StreamView} key=${place.name} name=${place.name} tab=${place.tab} entry=${catalogue.entries.get(place.name)} onTab=${(tab) => go(streamHash(place.name, tab))} onOpen=${open} onGone=${() => { go("#/streams"); document.getElementById("main").focus(); }} />`
    : html`<${Welcome} catalogue=${catalogue} hrefOf=${streamHash} onCreate=${() => setDialog("create")} onFind=${() => setDialog("open")} />`;
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the content</a><header class="top"><a class="brand" href="#/streams"><img src="icon.svg" alt="" width="22" height="22" /> Everbrook</a>
      <nav aria-label="Pages">${PAGES.map(([id, label]) => html`<a key=${id} href=${`#/${id}`} aria-current=${place.page === id ? "page" : undefined}>${label}</a>`)}</nav>
      <span class="grow"></span><span class=${`server ${catalogue.state}`} role="status" title=${catalogue.error?.message ?? ""}>${root.replace(/^https?:\/\//, "")}${catalogue.state === "live" ? "" : ` · ${catalogue.state}`}</span>
      <button onClick=${() => setDialog("token")} aria-pressed=${token() !== ""}>${token() ? "Token set" : "Token"}</button>
      <label class="theme"><span class="hidden">Theme</span><select value=${theme} onChange=${(event) => setTheme(event.target.value)}>${THEMES.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label></header>
    <div class=${place.page === "streams" ? `body with-tree${place.name ? " on-stream" : ""}` : "body"}>
      ${place.page === "streams" ? html`<${Tree} catalogue=${catalogue} selected=${place.name} onOpen=${open} onCreate=${() => setDialog("create")} onFind=${() => setDialog("open")} />` : null}
      <main id="main" tabindex="0">${main}</main></div>
    ${dialog === "create" && html`<${CreateDialog} buckets=${catalogue.buckets} onClose=${() => setDialog(null)} onDone=${open} />`}
    ${dialog === "open" && html`<${OpenDialog} onClose=${() => setDialog(null)} onDone=${open} />`}
    ${dialog === "token" && html`<${TokenDialog} onClose=${() => setDialog(null)} />`}`;
}

render(html`<${App} />`, document.getElementById("app"));
