// Server-Sent Events, read from a response: the browser's own reader can send no token.

export class EventParser {
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

export async function* events(response) {
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.feed(value);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
