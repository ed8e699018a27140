// The server: its address, the token for it, and requests. A refusal is an Error that knows its status and code.

const asked = new URLSearchParams(location.search).get("server");

export const root = (asked ?? new URL("..", location.href).href).replace(/\/+$/, "");
export const elsewhere = asked !== null;

// A token is for one server: another that the page is turned to never sees it.
const TOKEN = `everbrook.token ${root}`;

const STATUSES = {
  401: "the server asks for a token", 403: "the token may not do this", 404: "there is no such stream",
  410: "this is gone", 429: "the server asks to wait", 503: "the server is too busy",
};

export class Refusal extends Error {
  constructor(status, code, detail, headers = new Headers()) {
    super(detail);
    this.status = status;
    this.code = code;
    this.earliest = headers.has("Stream-Earliest-Offset") ? Number(headers.get("Stream-Earliest-Offset")) : null;
  }
}

export const needsToken = (error) => error?.status === 401 || error?.status === 403;

// A browser may be told to keep nothing, or may be full.
export function kept(action) {
  try {
    return action();
  } catch {
    return null;
  }
}

let given = kept(() => sessionStorage.getItem(TOKEN)) ?? "";
export const token = () => given;

const listeners = { given: new Set(), asked: new Set() };
function listen(set, listener) {
  set.add(listener);
  return () => set.delete(listener);
}
export const onToken = (listener) => listen(listeners.given, listener);
export const onTokenAsked = (listener) => listen(listeners.asked, listener);
export const askForToken = () => listeners.asked.forEach((listener) => listener());
export function setToken(text) {
  given = text;
  kept(() => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN)));
  listeners.given.forEach((listener) => listener());
}

function headersFor(own) {
  const headers = new Headers(own);
  if (token()) headers.set("Authorization", `Bearer ${token()}`);
  return headers;
}

async function refusal(response) {
  const { status, headers } = response;
  const text = await response.text().catch(() => "");
  const plain = STATUSES[status] ?? `the server answers ${status} ${response.statusText}`;
  try {
    const problem = JSON.parse(text);
    const { code, message } = problem.error ?? {};
    return new Refusal(status, problem.code ?? code, problem.detail ?? message ?? plain, headers);
  } catch {
    return new Refusal(status, "", text.slice(0, 200) || plain, headers);
  }
}

export async function request(path, options = {}) {
  const asking = fetch(root + path, { ...options, headers: headersFor(options.headers), cache: "no-store" });
  const response = await asking.catch((error) => {
    throw error instanceof TypeError ? new Error("the server can't be reached") : error;
  });
  if (!response.ok) throw await refusal(response);
  return response;
}

export const getJson = async (path, options) => (await request(path, options)).json();

export const wait = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
