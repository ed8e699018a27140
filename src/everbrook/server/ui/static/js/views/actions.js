// What can be done to streams, each in a dialog of its own.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { BUCKETS, idOf, nameOf, rootOf, urlPath } from "../names.js";
import { Text } from "../parts/text.js";
import { request, setToken, token, wait } from "../server.js";

// A form that does something to the server, shows why it could not, and closes when it could.
function Dialog({ title, action, onSubmit, onClose, danger = false, ready = true, children }) {
  const box = useRef(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => { box.current.showModal(); return () => box.current?.close(); }, []);
  const submit = async (event) => {
    event.preventDefault();
    if (!ready || busy) return;
    setBusy(true);
    try {
      await onSubmit();
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return html`<dialog ref=${box} aria-label=${title} onClose=${onClose} onPointerDown=${(event) => event.target === box.current && onClose()}>
    <form method="dialog" onSubmit=${submit}><h2>${title}</h2>${children}
      ${error && html`<p class="error" role="alert">${error.message}</p>`}
      <div class="buttons"><button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class=${danger ? "danger" : "primary"} disabled=${!ready || busy}>${action}</button></div></form></dialog>`;
}

const Field = ({ label, hint, children }) => html`<label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;

export function CreateDialog({ buckets, onClose, onDone }) {
  const [bucket, setBucket] = useState("");
  const [id, setId] = useState("");
  const [type, setType] = useState("application/json");
  const [ttl, setTtl] = useState("");
  const name = bucket ? `${BUCKETS}${bucket}/${id}` : nameOf(id);
  const create = async () => {
    const headers = { "Content-Type": type, ...(ttl && { "Stream-TTL": ttl }) };
    await request(urlPath(name), { method: "PUT", headers });
    onDone(name);
  };
  return html`<${Dialog} title="Create a stream" action="Create" onSubmit=${create} onClose=${onClose} ready=${id !== ""}>
    ${buckets.length ? html`<${Field} label="Where"><select value=${bucket} onChange=${(event) => setBucket(event.target.value)}><option value="">base surface</option>${buckets.map((each) => html`<option key=${each.bucket_id} value=${each.bucket_id}>bucket ${each.bucket_id}</option>`)}</select></${Field}>` : null}
    <${Field} label=${bucket ? "Id" : "Path"}><input required autofocus value=${id} onInput=${(event) => setId(event.target.value)} placeholder="chats/42" /></${Field}>
    <${Field} label="Content type"><input list="content-types" value=${type} onInput=${(event) => setType(event.target.value)} /><datalist id="content-types"><option>application/json</option><option>text/plain</option><option>application/octet-stream</option></datalist></${Field}>
    <${Field} label="Time to live, in seconds" hint="Empty: it stays until it is deleted."><input inputmode="numeric" pattern="[0-9]*" value=${ttl} onInput=${(event) => setTtl(event.target.value)} /></${Field}></${Dialog}>`;
}

export function OpenDialog({ onClose, onDone }) {
  const [path, setPath] = useState("");
  return html`<${Dialog} title="Open a stream" action="Open" onSubmit=${async () => { urlPath(nameOf(path.trim())); onDone(nameOf(path.trim())); }} onClose=${onClose} ready=${path.trim() !== ""}>
    <${Field} label="Path of the stream" hint="The path after /v1/stream/, or the whole path, which begins with a slash."><input required autofocus value=${path} onInput=${(event) => setPath(event.target.value)} placeholder="chats/42" /></${Field}></${Dialog}>`;
}

export function DeleteDialog({ name, onLeaving, onClose, onDone }) {
  const [typed, setTyped] = useState("");
  // Nobody should follow what is about to go.
  const remove = async () => {
    onLeaving(true);
    await wait(50);
    await request(urlPath(name), { method: "DELETE" }).catch((error) => { onLeaving(false); throw error; });
    onDone();
  };
  return html`<${Dialog} title="Delete this stream" action="Delete" danger onSubmit=${remove} onClose=${onClose} ready=${typed === idOf(name)}>
    <p>All its messages are deleted, for all readers. Type <code><${Text} text=${idOf(name)} /></code> to confirm.</p>
    <${Field} label="Name of the stream"><input autofocus value=${typed} onInput=${(event) => setTyped(event.target.value)} /></${Field}></${Dialog}>`;
}

export function CloseDialog({ name, onClose, onDone }) {
  const close = async () => { await request(urlPath(name), { method: "POST", headers: { "Stream-Closed": "true" } }); onDone(); };
  return html`<${Dialog} title="Close this stream" action="Close the stream" danger onSubmit=${close} onClose=${onClose}>
    <p>Nothing can be appended to it any more. It can be read as before. This can't be undone.</p></${Dialog}>`;
}

export function ForkDialog({ name, offset, contentType, onClose, onDone }) {
  const [id, setId] = useState(`${idOf(name)}-fork`);
  const target = rootOf(name) + id;
  const fork = async () => {
    const headers = { "Content-Type": contentType, "Stream-Forked-From": urlPath(name), ...(offset !== null && { "Stream-Fork-Offset": offset }) };
    await request(urlPath(target), { method: "PUT", headers });
    onDone(target);
  };
  return html`<${Dialog} title="Fork this stream" action="Fork" onSubmit=${fork} onClose=${onClose} ready=${id !== ""}>
    <p>The new stream begins with ${offset === null ? "everything that this one holds" : html`what this one holds before <code>${offset}</code>`}.</p>
    <${Field} label="Name of the new stream"><input autofocus value=${id} onInput=${(event) => setId(event.target.value)} /></${Field}></${Dialog}>`;
}

export function TokenDialog({ onClose }) {
  const [text, setText] = useState(token());
  return html`<${Dialog} title="Token" action="Use it" onSubmit=${async () => setToken(text.trim())} onClose=${onClose}>
    <p>Sent with every request of this page, and forgotten when this tab is closed.</p>
    <${Field} label="Token or API key"><input type="password" autocomplete="off" autofocus value=${text} onInput=${(event) => setText(event.target.value)} /></${Field}></${Dialog}>`;
}
