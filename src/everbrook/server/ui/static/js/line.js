// One connection for a stream, however many parts of the page follow it: who comes first holds it, the others hear what
// it is told. When it ends, each goes on by itself, and the next one to ask holds the new one.

import { urlPath } from "./names.js";
import { request } from "./server.js";

// Server-Sent Events, read from a response: the browser's own reader can send no token.
class EventParser {
  #rest = "";
  #type = "";
  #data = [];

  // Take a piece of text; give the events that are whole by now.
  feed(text) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?=[^\n])/);
    this.#rest = lines.pop();
    const events = [];
    for (const line of lines) {
      if (line === "") {
        if (this.#data.length) events.push({ type: this.#type || "message", data: this.#data.join("\n") });
        this.#type = "";
        this.#data = [];
      } else this.#field(line);
    }
    return events;
  }

  #field(line) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#type = value;
    else if (name === "data") this.#data.push(value);
  }
}

// The events that arrive together. Every message of a batch has a control event, and of several the last says it all.
async function* arrivals(response) {
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield parser.feed(value);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

const lines = new Map();

class Line {
  #last = null;
  #ended = false;
  #waiting = new Set();

  say(control) {
    this.#last = control;
    this.#wake();
  }

  end() {
    this.#ended = true;
    this.#wake();
  }

  #wake = () => {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  };

  async *listen(signal) {
    signal.addEventListener("abort", this.#wake);
    try {
      for (let heard = null; ; ) {
        if (this.#last !== heard) yield (heard = this.#last);
        else if (this.#ended || signal.aborted) return;
        else await new Promise((resolve) => this.#waiting.add(resolve));
      }
    } finally {
      signal.removeEventListener("abort", this.#wake);
    }
  }
}

async function* hold(name, at, signal) {
  const line = new Line();
  lines.set(name, line);
  try {
    const response = await request(`${urlPath(name)}?offset=${encodeURIComponent(at)}&live=sse`, { signal });
    for await (const events of arrivals(response)) {
      const told = events.findLast((event) => event.type === "control");
      if (!told) continue;
      const control = JSON.parse(told.data);
      line.say(control);
      yield control;
    }
  } finally {
    lines.delete(name);
    line.end();
  }
}

// What the server says of a stream's tail from an offset on, as it moves.
export const controls = (name, at, signal) => lines.get(name)?.listen(signal) ?? hold(name, at, signal);
