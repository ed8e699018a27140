// The messages of a stream that are at hand: a run of pages without a gap, which grows at both ends.
// Bytes stay as they came; a message is taken out of them when somebody looks at it.

import { formatOffset } from "./names.js";

const MAX_MESSAGES = 500_000;
const MAX_BYTES = 256 * 1024 * 1024;

export class Log {
  pages = [];
  count = 0;
  bytes = 0;

  // `at` is what the server calls the offset to go on from.
  constructor(start, at = formatOffset(start)) {
    this.start = start;
    this.end = start;
    this.at = at;
  }

  append(page) {
    if (!page.count) return 0;
    this.pages.push(page);
    this.#ended();
    this.#grew(page);
    return this.#trim(() => this.pages.shift(), () => { this.start = this.pages[0].first; });
  }

  prepend(page) {
    if (!page.count) return 0;
    this.pages.unshift(page);
    this.start = page.first;
    this.#grew(page);
    this.#trim(() => this.pages.pop(), () => this.#ended());
    return page.count;
  }

  #ended() {
    const last = this.pages.at(-1);
    this.end = last.ends[last.count - 1];
    this.at = last.until ?? formatOffset(this.end);
  }

  // Begin anew at an offset: what was before it is gone.
  restart(offset) {
    Object.assign(this, { pages: [], count: 0, bytes: 0, places: null, start: offset, end: offset, at: formatOffset(offset) });
  }

  // Let everything but the last page go.
  keepLast() {
    if (this.pages.length < 2) return;
    this.pages = this.pages.slice(-1);
    ({ first: this.start, count: this.count } = this.pages[0]);
    this.bytes = this.pages[0].data.length;
    this.places = null;
  }

  #grew(page) {
    this.count += page.count;
    this.bytes += page.data.length;
    this.places = null;
  }

  #trim(drop, settle) {
    let dropped = 0;
    while (this.pages.length > 1 && (this.count > MAX_MESSAGES || this.bytes > MAX_BYTES)) {
      const page = drop();
      this.count -= page.count;
      this.bytes -= page.data.length;
      dropped += page.count;
    }
    if (dropped) { settle(); this.places = null; }
    return dropped;
  }

  #indexed() {
    if (this.places) return this.places;
    let before = 0;
    this.places = this.pages.map((page) => { const at = before; before += page.count; return at; });
    return this.places;
  }

  message(index) {
    const places = this.#indexed();
    let low = 0, high = places.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (places[middle] <= index) low = middle;
      else high = middle - 1;
    }
    return messageOf(this.pages[low], index - places[low]);
  }

  // The place of the first message at an offset or behind it.
  find(offset) {
    let low = 0, high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.message(middle).offset < offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function messageOf(page, at) {
  const offset = at ? page.ends[at - 1] : page.first;
  const end = page.ends[at];
  const [from, to] = page.bounds?.[at] ?? [offset - page.first, end - page.first - page.trailer];
  // Within a plain page only its ends have offsets that can be asked for.
  const [asked, until] = page.at === undefined ? [formatOffset(offset), formatOffset(end)] : [page.at, at === page.count - 1 ? page.until : null];
  return { offset, next: end, asked, until, label: page.at !== undefined && at ? `+${at}` : asked, time: page.times[at], bytes: page.data.subarray(from, to) };
}
