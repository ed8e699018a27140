// What went wrong, and what can be done about it.

import { html } from "../../vendor/preact.js";
import { askForToken, needsToken, token } from "../server.js";

export function Failure({ error, onRetry }) {
  return html`<p class="error" role="alert">${error.message} ${needsToken(error) && html`<button onClick=${askForToken}>${token() ? "Give another token" : "Give a token"}</button>`}
    ${onRetry && html` <button onClick=${onRetry}>Try again</button>`}</p>`;
}
