// Views that are fetched when they are first shown, so that the first one need not wait for all of them.

import { html, useEffect, useState } from "../../vendor/preact.js";

export function later(load, name) {
  let known = null;
  return function Later(props) {
    const [, draw] = useState(false);
    useEffect(() => { if (!known) load().then((module) => { known = module[name]; draw(true); }); }, []);
    return known ? html`<${known} ...${props} />` : html`<p class="empty">Loading…</p>`;
  };
}
