// Streams of changes, in both dialects, folded into their current rows.

const STATE = new Map([["insert", "set"], ["update", "set"], ["upsert", "set"], ["delete", "remove"]]);

export function parseChange(message) {
  if (message === null || typeof message !== "object" || Array.isArray(message)) return null;
  const { type, key, headers } = message;
  if (headers && typeof headers === "object") {
    if (headers.control === "reset") return { operation: "reset" };
    if (headers.control) return { operation: "none" };
    const operation = STATE.get(headers.operation);
    return operation && typeof type === "string" && typeof key === "string" ? { operation, type, key, value: message.value } : null;
  }
  const known = ["set", "remove", "append"].includes(message.operation);
  return known && typeof type === "string" && typeof key === "string" ? { operation: message.operation, type, key, value: message.value } : null;
}

// A list grows where it is: a copy for each change would take quadratic time.
function joined(old, value) {
  if (old === undefined) return typeof value === "string" || Array.isArray(value) ? value : [value];
  if (typeof old === "string" && typeof value === "string") return old + value;
  const list = Array.isArray(old) ? old : [old];
  for (const each of Array.isArray(value) ? value : [value]) list.push(each);
  return list;
}

// The current rows of a stream of changes: by type, and within it by key.
export class Table {
  types = new Map();
  changes = 0;
  invalid = 0;
  settled = Infinity;

  // From now on a row that is touched has changed before somebody's eyes.
  settle() {
    this.settled = performance.now();
  }

  apply(message, offset, time) {
    const change = parseChange(message);
    if (change === null) { this.invalid++; return; }
    this.changes++;
    if (change.operation === "reset") { this.types.clear(); return; }
    if (change.operation === "none") return;
    const rows = this.types.get(change.type) ?? this.types.set(change.type, new Map()).get(change.type);
    if (change.operation === "remove") { rows.delete(change.key); return; }
    const value = change.operation === "append" ? joined(rows.get(change.key)?.value, change.value) : change.value;
    rows.set(change.key, { key: change.key, value, offset, time, touched: performance.now() });
  }

  // Take over a snapshot that holds changes which set every row.
  load(messages, offset) {
    for (const message of messages) this.apply(message, offset, NaN);
  }
}
