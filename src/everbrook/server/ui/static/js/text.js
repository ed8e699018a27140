// Payloads as text that shows what is there, and nothing else: characters that steer the display are shown by name.

const strict = new TextDecoder("utf-8", { fatal: true });
const lenient = new TextDecoder();

export const STEERING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

// One of them, however often.
const STEERED = new RegExp(`(${STEERING.source})\\1*`, "g");

// Whether a text could change how its neighbours are shown: by a character that steers, or by running right to left.
const UNRULY = new RegExp(`${STEERING.source}|[\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufefe\\ud802\\ud803\\ud83a\\ud83b]`);
export const steers = (text) => UNRULY.test(text);

export function decode(bytes) {
  try {
    return { text: strict.decode(bytes), valid: true };
  } catch {
    return { text: lenient.decode(bytes), valid: false };
  }
}

export const named = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

// Split a text into runs that are shown as they are and characters that are shown by name. There are at most so many:
// each costs an element of the page.
const MAX_RUNS = 4000;

export function runs(text) {
  const found = [];
  let from = 0;
  for (const match of text.matchAll(STEERED)) {
    if (match.index > from) found.push({ text: text.slice(from, match.index) });
    const times = match[0].length;
    found.push({ steering: times > 1 ? `${named(match[0])} ×${times}` : named(match[0]) });
    from = match.index + times;
    if (found.length >= MAX_RUNS) return [...found, { steering: `… ${text.length - from} more characters: see them as hex` }];
  }
  if (from < text.length) found.push({ text: text.slice(from) });
  return found;
}

// The first bytes of a payload, without a part of a character at the end.
export function firstBytes(bytes, count) {
  if (bytes.length <= count) return bytes;
  let end = count;
  while (end > count - 4 && (bytes[end] & 0xc0) === 0x80) end--;
  return bytes.subarray(0, end);
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

export function hexLines(bytes, from = 0, count = 256) {
  const lines = [];
  for (let at = from; at < bytes.length && lines.length < count; at += 16) {
    const row = bytes.subarray(at, at + 16);
    const hex = Array.from(row, (byte) => HEX[byte]).join(" ");
    const shown = Array.from(row, (byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hex.padEnd(47)}  ${shown}`);
  }
  return lines;
}

export function formatBytes(bytes) {
  if (!Number.isFinite(bytes)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) { bytes /= 1000; unit++; }
  return `${unit && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

// By hand: making the browser's own formatter takes longer than drawing all of the first view.
const grouped = (digits) => digits.replace(/\B(?=(?:\d{3})+$)/g, ",");

export function formatNumber(number) {
  if (!Number.isFinite(number)) return "–";
  return number < 10 ? String(Math.round(10 * number) / 10) : grouped(String(Math.round(number)));
}

export const counted = (number, thing) => `${formatNumber(number)} ${thing}${number === 1 ? "" : "s"}`;

export function formatTime(ms) {
  if (!Number.isFinite(ms)) return "";
  const time = new Date(ms);
  const two = (number) => String(number).padStart(2, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}

export function formatAgo(ms, now = Date.now()) {
  const secs = Math.max(0, (now - ms) / 1000);
  if (secs < 60) return `${Math.floor(secs)} s ago`;
  if (secs < 3600) return `${Math.floor(secs / 60)} min ago`;
  if (secs < 86400) return `${Math.floor(secs / 3600)} h ago`;
  return new Date(ms).toLocaleDateString();
}

export function formatSpan(secs) {
  if (secs < 0) return "0 s";
  if (secs < 120) return `${Math.round(secs)} s`;
  if (secs < 7200) return `${Math.round(secs / 60)} min`;
  if (secs < 172800) return `${Math.round(secs / 3600)} h`;
  return `${Math.round(secs / 86400)} d`;
}
