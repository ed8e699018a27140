// Search in what is shown: messages that have a word, found a slice at a time, and only the new ones when more come.

import { decode } from "./text.js";

const SLICE_MS = 8;

export class Search {
  // The offsets of what was found, in order.
  found = [];

  constructor(log, word) {
    this.log = log;
    this.word = word.toLowerCase();
    [this.from, this.to] = [log.start, log.start];
  }

  // Look at more messages, for a few milliseconds; tell whether there are any left.
  advance(end) {
    const until = performance.now() + SLICE_MS, { log } = this;
    if (this.to < log.start) this.to = this.from = log.start;
    if (this.found.length && this.found[0] < log.start) this.found = this.found.filter((offset) => offset >= log.start);
    for (let at = log.find(this.to); at < end; at++) {
      const message = log.message(at);
      if (this.#fits(message)) this.found.push(message.offset);
      this.to = message.next;
      if (performance.now() > until) return true;
    }
    return this.#lookBack(until);
  }

  // What came before where the search began.
  #lookBack(until) {
    const before = [], { log } = this;
    let at = log.find(this.from) - 1, more = false;
    for (; at >= 0 && !more; at--) {
      const message = log.message(at);
      if (this.#fits(message)) before.push(message.offset);
      this.from = message.offset;
      more = performance.now() > until;
    }
    if (before.length) this.found = before.reverse().concat(this.found);
    return more && at >= 0;
  }

  #fits({ bytes }) {
    return decode(bytes).text.toLowerCase().includes(this.word);
  }

  // The place of an offset among what was found, or -1.
  place(offset) {
    let low = 0, high = this.found.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.found[middle] < offset) low = middle + 1;
      else high = middle;
    }
    return this.found[low] === offset ? low : -1;
  }
}
