// Frames: a page of messages with their offsets and times, as columns.

const HEADER_BYTES = 24;

const column = (buffer, at, count) => Float64Array.from(new BigUint64Array(buffer.slice(at, at + 8 * count)), Number);

export function decodeFrames(buffer) {
  const view = new DataView(buffer);
  if (buffer.byteLength < HEADER_BYTES || view.getUint32(0) !== 0x45424631) throw new Error("the answer is no page of frames");
  const count = view.getUint32(8, true);
  return {
    first: Number(view.getBigUint64(16, true)),
    trailer: view.getUint8(5),
    count,
    ends: column(buffer, HEADER_BYTES, count),
    times: column(buffer, HEADER_BYTES + 8 * count, count),
    data: new Uint8Array(buffer, HEADER_BYTES + 16 * count),
  };
}

// Where a server knows no frames: the messages of a plain page, as far as they can be told apart. Offsets are whatever
// that server likes, so that messages are counted in bytes from where the log began, and `at` and `until` are its own words.
export function framesOfPage(bytes, first, at, until, json) {
  const bounds = json ? elementBounds(bytes) : bytes.length ? [[0, bytes.length]] : [];
  const last = bounds.length - 1;
  const ends = bounds.map(([, end], place) => first + (place === last ? bytes.length : end));
  return { first, at, until, trailer: 0, count: bounds.length, ends, times: bounds.map(() => NaN), data: bytes, bounds };
}

// The elements of a JSON array, by their bytes; nothing is parsed.
function elementBounds(bytes) {
  const bounds = [];
  let depth = 0, start = -1, quoted = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (quoted) {
      if (byte === 0x5c) at++;
      else if (byte === 0x22) quoted = false;
      continue;
    }
    if (byte === 0x22) quoted = true;
    const closes = byte === 0x5d || byte === 0x7d;
    if (depth === 1 && start >= 0 && (byte === 0x2c || (closes && byte === 0x5d))) { bounds.push([start, at]); start = -1; }
    if (closes) depth--;
    if (depth === 1 && start < 0 && byte > 0x20 && byte !== 0x2c && !closes) start = at;
    if (byte === 0x5b || byte === 0x7b) depth++;
  }
  return bounds;
}
