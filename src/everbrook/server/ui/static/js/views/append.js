// The append box, with what was sent before: the arrow keys bring it back.

import { html, useRef, useState } from "../../vendor/preact.js";
import { urlPath } from "../names.js";
import { Failure } from "../parts/text.js";
import { kept, request } from "../server.js";

const KEPT = 50;
const KEPT_CHARACTERS = 20_000;
const recall = () => kept(() => JSON.parse(sessionStorage.getItem("everbrook.appended"))) ?? [];

function remember(text) {
  if (text.length > KEPT_CHARACTERS) return;
  kept(() => sessionStorage.setItem("everbrook.appended", JSON.stringify([text, ...recall().filter((each) => each !== text)].slice(0, KEPT))));
}

export function AppendBox({ name, about, json }) {
  const [text, setText] = useState("");
  const [error, setError] = useState(null);
  const [place, setPlace] = useState(-1);
  const [busy, setBusy] = useState(false);
  const sending = useRef(false);
  const send = async (event) => {
    event?.preventDefault();
    if (!text || sending.current) return;
    sending.current = true;
    setBusy(true);
    try {
      if (json) JSON.parse(text);
      await request(urlPath(name), { method: "POST", body: text, headers: { "Content-Type": about.contentType } });
      remember(text);
      setText((now) => (now === text ? "" : now));
      setPlace(-1);
      setError(null);
    } catch (failure) {
      setError(failure instanceof SyntaxError ? new Error(`this is not JSON: ${failure.message}`) : failure);
    } finally {
      sending.current = false;
      setBusy(false);
    }
  };
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey || !event.shiftKey)) { event.preventDefault(); send(); return; }
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!step || (text && place < 0)) return;
    const history = recall(), next = Math.min(history.length - 1, Math.max(-1, place + step));
    event.preventDefault();
    setPlace(next);
    setText(history[next] ?? "");
  };
  return html`<form class="append" onSubmit=${send}><textarea rows=${Math.min(8, text.split("\n").length)} aria-label="Message to append" placeholder=${json ? 'Append JSON: {"hello": "world"}' : "Append a message"} value=${text} onInput=${(event) => { setText(event.target.value); setPlace(-1); }} onKeyDown=${onKeyDown}></textarea>
    <button class="primary" disabled=${!text || busy}>Append</button>${error && html`<${Failure} error=${error} />`}</form>`;
}
