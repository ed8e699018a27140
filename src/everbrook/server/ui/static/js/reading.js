// Reads of a stream: a page from an offset, the page before one, and what comes, as it comes.

import { decodeFrames, framesOfPage } from "./frames.js";
import { controls } from "./line.js";
import { formatOffset, urlPath } from "./names.js";
import { Refusal, request, wait } from "./server.js";
import { seen, untilSeen } from "./sight.js";

export const REPLACED = "stream_replaced";
const RETRY_MS = [250, 500, 1000, 2000, 5000];

export async function describe(name, { query = "", signal } = {}) {
  const { headers } = await request(urlPath(name) + query, { method: "HEAD", signal });
  const number = (header) => (headers.has(header) ? Number(headers.get(header)) : null);
  const extensions = (headers.get("Stream-Extensions") ?? "").split(/,\s*/);
  return {
    contentType: headers.get("Content-Type") ?? "",
    tail: Number(headers.get("Stream-Next-Offset")),
    tailText: headers.get("Stream-Next-Offset") ?? "",
    offset: number("Stream-Offset"),
    earliest: number("Stream-Earliest-Offset") ?? 0,
    snapshot: number("Stream-Snapshot-Offset"),
    closed: headers.get("Stream-Closed") === "true",
    ttl: number("Stream-TTL"),
    expiresAt: headers.get("Stream-Expires-At"),
    retention: headers.get("Stream-Retention"),
    extensions,
    plain: !extensions.includes("frames"),
  };
}

export const isBinary = (contentType) => !/^text\/|json|xml|javascript/i.test(contentType);
export const isJson = (contentType) => /^application\/json\b/i.test(contentType);

// Whether a stream has more than a log has of it.
export const behind = (log, about) => (about.plain ? log.at !== about.tailText : log.end < about.tail);

async function readPage(name, about, query, { log, signal } = {}) {
  const response = await request(`${urlPath(name)}?${query}${about.plain ? "" : "&format=frames"}`, { signal });
  const buffer = await response.arrayBuffer();
  if (!about.plain) return decodeFrames(buffer);
  return framesOfPage(new Uint8Array(buffer), log.end, log.at, response.headers.get("Stream-Next-Offset") ?? log.at, isJson(about.contentType));
}

export const pageFrom = (name, about, log, signal) => readPage(name, about, `offset=${encodeURIComponent(log.at)}`, { log, signal });

export const pageBefore = (name, about, offset, count, signal) => readPage(name, about, `last=${count}&until=${formatOffset(offset)}`, { signal });

export const lastPage = (name, about, count, signal) => readPage(name, about, `last=${count}`, { signal });

// Follow a stream from the end of a log until it is closed or told to stop. An event says that there is more; the
// messages are then read with their offsets and times.
export async function follow(name, about, log, { onPage, onState, onLost, signal }) {
  for (let failures = 0; !signal.aborted; ) {
    await untilSeen(signal);
    const sight = seen(signal);
    try {
      onState(failures ? "reconnecting" : "connecting");
      const said = await followOnce(name, about, log, { onPage, onState, signal: sight.signal });
      if (said === "closed") { onState("closed"); return; }
      if (said === "nothing") await wait(RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)], signal);
      else failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      if (sight.signal.aborted) continue;
      if (error.status === 410 && error.earliest > log.end) { onLost(error.earliest); continue; }
      if (error instanceof Refusal && error.status < 500 && error.status !== 429) throw error;
      onState("reconnecting", error);
      await wait(RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)], signal);
    } finally {
      sight.end();
    }
  }
}

async function followOnce(name, about, log, { onPage, onState, signal }) {
  let said = "nothing";
  for await (const control of controls(name, log.at, signal)) {
    said = "something";
    onState("live");
    if (!about.plain && Number(control.streamNextOffset) < log.end) throw new Refusal(410, REPLACED, "this stream was deleted, and is another one now");
    await readUpTo(name, about, log, control.streamNextOffset, onPage, signal);
    if (control.streamClosed) return "closed";
  }
  return said;
}

async function readUpTo(name, about, log, next, onPage, signal) {
  const target = { ...about, tail: Number(next), tailText: next };
  while (behind(log, target) && !signal.aborted) {
    const page = await pageFrom(name, about, log, signal);
    if (!page.count) { log.at = page.until ?? log.at; return; }
    onPage(page);
  }
}
