// All streams of the server, kept current: listed once, page by page, then only what moved. A server that lists nothing
// may have a registry; of one that has neither, those that somebody opened are known.

import { BASE, BUCKETS, bucketOf, nameOf } from "./names.js";
import { elsewhere, getJson, needsToken, request, wait } from "./server.js";

const POLL_MS = 2000;
const RATE_SECS = 10;
const SORT_MS = 500;
const POLLED_BUCKETS = 20;
const BUCKETS_EVERY = 5;
const AT_ONCE = 4;
const ANSWER_MS = 30_000;

const inTime = (signal) => ({ signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]) });
const pageOf = (path, after, signal) => getJson(`${path}?limit=1000&after=${encodeURIComponent(after)}`, inTime(signal));

class Catalogue {
  entries = new Map();
  // In the order of a tree: a folder's streams stay together. `shape` counts how often they changed.
  names = [];
  shape = 0;
  buckets = [];
  state = "loading";
  error = null;
  listed = true;
  #tokens = new Map();
  #turn = 0;
  #sorted = -SORT_MS;
  #ending = new AbortController();
  onChange = () => {};

  constructor() {
    this.#run(this.#ending.signal);
  }

  end() {
    this.#ending.abort();
  }

  async #run(signal) {
    while (!signal.aborted) {
      try {
        if (elsewhere && !(await this.#lists(signal))) await this.#follow(signal);
        await this.#listAll(signal);
        this.#say("live");
        while (!signal.aborted) {
          await wait(POLL_MS, signal);
          if (!document.hidden && !signal.aborted) await this.#poll(signal);
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error.code !== "token_gone") this.#say(needsToken(error) ? "refused" : "failed", error);
        await wait(POLL_MS, signal);
      }
    }
  }

  #say(state, error = null) {
    this.state = state;
    this.error = error;
    this.onChange();
  }

  // Any answer tells what a server knows beyond the protocol.
  async #lists(signal) {
    const response = await request(BASE, { method: "OPTIONS", ...inTime(signal) }).catch((error) => {
      if (error.status) return null;
      throw error;
    });
    return (response?.headers.get("Stream-Extensions") ?? "").includes("listing");
  }

  // What a registry tells, or nothing.
  async #follow(signal) {
    const { findRegistry } = await import("./registry.js");
    const registry = await findRegistry(inTime(signal));
    this.listed = registry !== null;
    for (this.#say("live"); !signal.aborted; await wait(POLL_MS, signal)) {
      if (!registry || document.hidden) continue;
      for await (const change of registry.news(signal)) this.#register(change);
      this.#sort();
      this.#say("live");
    }
  }

  #register({ key, operation, value }) {
    const name = nameOf(key);
    if (operation === "remove") this.entries.delete(name);
    else this.entries.set(name, { name, status: "Open", content_type: value?.contentType, marks: [] });
  }

  // Somebody opened a stream of a server that does not list them.
  note(name) {
    if (this.listed || !name || this.entries.has(name)) return;
    this.entries.set(name, { name, status: "Open", marks: [] });
    this.#sort();
    this.onChange();
  }

  async #listAll(signal) {
    const seen = new Set();
    this.#tokens.clear();
    await this.#list(BASE, `${BASE}__ds/streams`, seen, signal);
    await this.#listBuckets(await this.#findBuckets(signal), seen, signal);
    for (const name of [...this.entries.keys()]) if (!seen.has(name)) this.entries.delete(name);
    this.#sort();
    this.onChange();
  }

  async #findBuckets(signal) {
    const found = [];
    for (let after = ""; after !== null; ) {
      const page = await getJson(`/ds?limit=1000&after=${encodeURIComponent(after)}`, inTime(signal)).catch((error) => {
        if (error.status === 404 || error.status === 403) return { buckets: [], next_cursor: null };
        throw error;
      });
      found.push(...page.buckets);
      after = page.next_cursor;
    }
    return found;
  }

  async #listBuckets(found, seen, signal) {
    this.buckets = found;
    const roots = found.map(({ bucket_id: id }) => `${BUCKETS}${id}/`).filter((root) => !this.#tokens.has(root));
    for (let at = 0; at < roots.length; at += AT_ONCE) await Promise.all(roots.slice(at, at + AT_ONCE).map((root) => this.#listBucket(root, seen, signal)));
  }

  // A bucket may go while it is being listed.
  async #listBucket(root, seen, signal) {
    await this.#list(root, `${root}__ds/streams`, seen, signal).catch((error) => {
      if (error.status !== 404) throw error;
    });
  }

  async #list(root, path, seen, signal) {
    let token = null;
    for (let after = ""; after !== null; ) {
      const page = await pageOf(path, after, signal);
      token ??= page.token;
      for (const entry of page.streams) { this.#take(root, entry); seen.add(root + entry.stream_id); }
      after = page.next_cursor;
      if (page.streams.length) this.#sortSometimes();
      this.onChange();
    }
    this.#tokens.set(root, { path, token });
  }

  // The base surface, and a share of the buckets if there are many.
  #due() {
    const roots = [...this.#tokens.keys()].filter((root) => root !== BASE);
    const first = (this.#turn * POLLED_BUCKETS) % Math.max(1, roots.length);
    return [BASE, ...[...roots, ...roots].slice(first, first + Math.min(roots.length, POLLED_BUCKETS))];
  }

  async #poll(signal) {
    let moved = false;
    for (const root of this.#due()) moved = (await this.#pollRoot(root, signal)) || moved;
    if (moved) this.#sort();
    if (this.buckets.length < 1000 || this.#turn % BUCKETS_EVERY === 0) await this.#lookForBuckets(signal);
    this.#turn++;
    this.#say("live");
  }

  async #pollRoot(root, signal) {
    const at = this.#tokens.get(root);
    let moved = false;
    for (let more = true; more; ) {
      const page = await getJson(`${at.path}?changed_since=${encodeURIComponent(at.token)}`, inTime(signal)).catch((error) => {
        if (error.status === 404 && root !== BASE) return null;
        throw error;
      });
      if (page === null) return this.#forget(root);
      for (const entry of page.streams) moved = this.#take(root, entry) || moved;
      ({ token: at.token, has_more: more } = page);
    }
    return moved;
  }

  #forget(root) {
    this.#tokens.delete(root);
    for (const name of [...this.entries.keys()]) if (name.startsWith(root)) this.entries.delete(name);
    return true;
  }

  async #lookForBuckets(signal) {
    const found = await this.#findBuckets(signal), kept = new Set(found.map((bucket) => bucket.bucket_id));
    const gone = [...this.#tokens.keys()].filter((root) => root !== BASE && !kept.has(bucketOf(root)));
    gone.forEach((root) => this.#forget(root));
    const seen = new Set();
    await this.#listBuckets(found, seen, signal);
    if (gone.length || seen.size) this.#sort();
  }

  // Take an entry; tell whether a name came or went.
  #take(root, entry) {
    const name = root + entry.stream_id, old = this.entries.get(name);
    if (entry.status === "Deleted") return this.entries.delete(name);
    const now = Date.now(), mark = [now, entry.tail_offset];
    const marks = old && old.created_at_ms === entry.created_at_ms ? old.marks.filter(([time]) => time > now - 2000 * RATE_SECS) : [];
    marks.push(mark);
    this.entries.set(name, { ...entry, name, marks });
    return !old;
  }

  // While many pages come, not each of them puts all names in order.
  #sortSometimes() {
    if (performance.now() > this.#sorted + SORT_MS) this.#sort();
  }

  #sort() {
    this.#sorted = performance.now();
    this.names = [...this.entries.keys()].sort();
    this.shape++;
  }

  // Bytes per second over the last seconds.
  rate(entry, now = Date.now()) {
    if (entry.marks.length < 2) return 0;
    const recent = entry.marks.filter((mark) => mark[0] > now - 1000 * RATE_SECS);
    if (recent.length < 2) return 0;
    const [from, first] = recent[0], [to, last] = recent.at(-1);
    return Math.max(0, (1000 * (last - first)) / Math.max(1000, Math.max(to, now - POLL_MS) - from));
  }
}

// The first one begins as soon as this module is there, while the rest of the page still comes.
let first = new Catalogue();

export function beginCatalogue() {
  const begun = first ?? new Catalogue();
  first = null;
  return begun;
}
