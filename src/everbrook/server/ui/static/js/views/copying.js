// A message as a command: how to read it at a terminal, and in Python.

import { html, useState } from "../../vendor/preact.js";
import { bucketOf, idOf, rootOf, BASE, urlPath } from "../names.js";
import { root, token } from "../server.js";

const SAID_MS = 2000;
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function curlOf(name, message) {
  const auth = token() ? ' -H "Authorization: Bearer $EVERBROOK_TOKEN"' : "";
  const until = message.until && message.asked !== message.until && /^\d+$/.test(message.until) ? `&until=${message.until}` : "";
  return `curl${auth} ${quoted(`${root}${urlPath(name)}?offset=${message.asked}${until}`)}`;
}

export function pythonOf(name, message) {
  const bucket = bucketOf(name);
  const named = JSON.stringify(rootOf(name) === BASE ? idOf(name) : root + urlPath(name));
  const stream = bucket === null ? `client.stream(${named})` : `client.bucket(${JSON.stringify(bucket)}).stream(${JSON.stringify(idOf(name))})`;
  const auth = token() ? ', headers={"Authorization": f"Bearer {os.environ[\'EVERBROOK_TOKEN\']}"}' : "";
  return `${token() ? "import os\n\n" : ""}from everbrook import Client\n\nclient = Client(${JSON.stringify(root)}${auth})\nfor message in ${stream}.read(offset="${message.asked}"):\n    print(message)\n    break\n`;
}

// Without a secure context a page has no clipboard of its own, but may still copy what is selected.
function copySelected(text) {
  const box = Object.assign(document.createElement("textarea"), { value: text, className: "hidden" });
  document.body.append(box);
  box.select();
  const copied = document.execCommand("copy");
  box.remove();
  if (!copied) throw new Error("the browser lets nothing be copied");
}

async function copy(text) {
  if (navigator.clipboard) await navigator.clipboard.writeText(text).catch(() => copySelected(text));
  else copySelected(text);
}

export function CopyButton({ label, text }) {
  const [said, say] = useState("");
  const press = async () => {
    say(await copy(text()).then(() => "Copied", () => "Could not copy"));
    setTimeout(() => say(""), SAID_MS);
  };
  return html`<button onClick=${press}>${said || label}</button><span class="hidden" role="status">${said}</span>`;
}
