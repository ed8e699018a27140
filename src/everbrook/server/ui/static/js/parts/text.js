// Words that come from elsewhere: a text of a stream, never as markup, and what went wrong.

import { html } from "../../vendor/preact.js";
import { askForToken, needsToken, token } from "../server.js";
import { runs, steers } from "../text.js";

export function Text({ text }) {
  if (!steers(text)) return html`<bdi>${text}</bdi>`;
  return html`<bdi>${runs(text).map((run) => (run.steering ? html`<span class="steering" title="a control character">${run.steering}</span>` : run.text))}</bdi>`;
}

// With what can be done about it.
export function Failure({ error, onRetry }) {
  return html`<p class="error" role="alert">${error.message} ${needsToken(error) && html`<button onClick=${askForToken}>${token() ? "Give another token" : "Give a token"}</button>`}
    ${onRetry && html` <button onClick=${onRetry}>Try again</button>`}</p>`;
}
