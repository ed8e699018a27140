// Dialogs: a form that does something to the server, shows why it could not, and closes when it could.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";

export function Dialog({ title, action, onSubmit, onClose, danger = false, ready = true, children }) {
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

export const Field = ({ label, hint, children }) => html`<label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;
