// One connection for a stream, however many parts of the page follow it: who comes first holds it, the others hear what
// it is told. When it ends, each goes on by itself, and the next one to ask holds the new one.

import { urlPath } from "./names.js";
import { request } from "./server.js";
import { events } from "./sse.js";

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
    for await (const event of events(response)) {
      if (event.type !== "control") continue;
      const control = JSON.parse(event.data);
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
