// JSON as lines that can be folded, each in coloured pieces. The text is cut, never parsed: numbers, keys and their
// order are shown as they were written, however deep the document is.

// A text that was cut may end inside a string: that is a token too.
const TOKEN = /"(?:[^"\\]+|\\.)*(?:"|\\?$)|[[\]{}:,]|[^\s[\]{}:,"]+/gs;
const MAX_DEPTH_SHOWN = 40;

const kindOf = (token) =>
  token[0] === '"' ? "string" : /^(?:true|false|null)$/.test(token) ? "word" : /^[-\d]/.test(token) ? "number" : "other";

export function tokens(text, limit = Infinity) {
  const found = [];
  let expectsKey = false;
  const open = [];
  for (const [token] of text.matchAll(TOKEN)) {
    if (found.length >= limit) break;
    if (token === "{" || token === "[") { open.push(token); expectsKey = token === "{"; found.push({ kind: "open", text: token }); }
    else if (token === "}" || token === "]") { open.pop(); expectsKey = false; found.push({ kind: "close", text: token }); }
    else if (token === ",") { expectsKey = open.at(-1) === "{"; found.push({ kind: "comma", text: "," }); }
    else if (token === ":") { expectsKey = false; found.push({ kind: "colon", text: ":" }); }
    else found.push({ kind: expectsKey && token[0] === '"' ? "key" : kindOf(token), text: token });
  }
  return found;
}

// Lay a document out in lines: {depth, parts, end}, where `end` is the line that closes what this one opens.
export function layOut(text) {
  const lines = [{ depth: 0, parts: [] }];
  const opened = [];
  const all = tokens(text);
  const begin = (depth) => lines.push({ depth: Math.min(depth, MAX_DEPTH_SHOWN), parts: [] });
  all.forEach((token, at) => {
    const previous = all[at - 1]?.kind, next = all[at + 1]?.kind;
    if (token.kind === "close" && previous !== "open") begin(opened.length - 1);
    lines.at(-1).parts.push(token.kind === "colon" ? { kind: "colon", text: ": " } : token);
    if (token.kind === "open") {
      opened.push(lines.length - 1);
      if (next !== "close") begin(opened.length);
    } else if (token.kind === "close") {
      const from = opened.pop();
      if (from !== undefined && from !== lines.length - 1) lines[from].end = lines.length - 1;
    } else if (token.kind === "comma") begin(opened.length);
  });
  return lines;
}

export function visibleLines(lines, folded) {
  const shown = [];
  for (let at = 0; at < lines.length; at++) {
    shown.push(at);
    if (folded.has(at) && lines[at].end !== undefined) at = lines[at].end;
  }
  return shown;
}
