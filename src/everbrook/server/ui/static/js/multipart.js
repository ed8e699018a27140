// The parts of a multipart body, found by their boundary among bytes that may be anything.

const encode = (text) => new TextEncoder().encode(text);
const latin = new TextDecoder("latin1");

function indexOf(bytes, wanted, from) {
  for (let at = bytes.indexOf(wanted[0], from); at >= 0; at = bytes.indexOf(wanted[0], at + 1)) {
    let length = 1;
    while (length < wanted.length && bytes[at + length] === wanted[length]) length++;
    if (length === wanted.length) return at;
  }
  return -1;
}

const header = (head, name) => new RegExp(`^${name}: *(.*)$`, "im").exec(head)?.[1].trim() ?? "";

function part(bytes) {
  const gap = indexOf(bytes, encode("\r\n\r\n"), 0);
  const head = latin.decode(bytes.subarray(0, Math.max(0, gap)));
  return { type: header(head, "Content-Type"), bytes: bytes.subarray(gap < 0 ? 0 : gap + 4) };
}

// The parts that are whole; of a body that was cut the last one is not.
export function multipart(bytes, boundary, most = Infinity) {
  const fence = encode(`\r\n--${boundary}`), found = [];
  let from = indexOf(bytes, encode(`--${boundary}`), 0) + fence.length - 2;
  for (let end; found.length < most && (end = indexOf(bytes, fence, from)) >= 0; from = end + fence.length) found.push(part(bytes.subarray(from, end)));
  return found;
}

// The first bytes of a response; the rest is not waited for.
export async function readSome(response, most) {
  const reader = response.body.getReader(), chunks = [];
  let size = 0, ended = false;
  while (size < most && !ended) {
    const { done, value } = await reader.read();
    ended = done;
    if (value) { chunks.push(value); size += value.length; }
  }
  if (!ended) reader.cancel().catch(() => {});
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) { bytes.set(chunk, at); at += chunk.length; }
  return { bytes, whole: ended };
}
