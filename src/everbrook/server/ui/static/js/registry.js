// The registry of a server that does not list its streams: a stream of changes that tells which others there are.

import { parseChange } from "./changes.js";
import { Log } from "./log.js";
import { BASE } from "./names.js";
import { describe, pageFrom } from "./reading.js";

const NAME = `${BASE}__registry__`;

class Registry {
  #log = new Log(0, "-1");

  constructor(about) {
    this.about = about;
  }

  // What was changed since this was asked before.
  async *news(signal) {
    const log = this.#log;
    for (let page; (page = await pageFrom(NAME, this.about, log, signal)).count; log.keepLast()) {
      log.append(page);
      for (let at = log.count - page.count; at < log.count; at++) {
        const change = parseChange(JSON.parse(new TextDecoder().decode(log.message(at).bytes)));
        if (change?.type === "stream") yield change;
      }
    }
  }
}

// The registry, or null where there is none.
export async function findRegistry(options) {
  try {
    return new Registry(await describe(NAME, options));
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}
