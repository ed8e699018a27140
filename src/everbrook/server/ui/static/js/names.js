// Names of streams. A stream is known here by its decoded path: "/v1/stream/a/b", "/ds/bucket/id" in a bucket, or
// whatever another server has it at.

export const BASE = "/v1/stream/";
export const BUCKETS = "/ds/";

export const bucketOf = (name) => (name.startsWith(BUCKETS) ? name.slice(BUCKETS.length).split("/", 1)[0] : null);

export const rootOf = (name) => (bucketOf(name) !== null ? `${BUCKETS}${bucketOf(name)}/` : name.startsWith(BASE) ? BASE : "/");

export const idOf = (name) => name.slice(rootOf(name).length);

// In a bucket an id is one segment, whatever it holds. A dot segment is taken out of every URL by the browser: what is
// asked then would be about another stream.
export function urlPath(name) {
  const id = idOf(name), segments = bucketOf(name) === null ? id.split("/") : [id];
  const dots = segments.find((segment) => segment === "." || segment === "..");
  if (dots) throw new Error(`no browser can ask for a path with the segment "${dots}"`);
  return rootOf(name) + segments.map(encodeURIComponent).join("/");
}

// What somebody typed: a path of the server, or what is behind /v1/stream/.
export const nameOf = (typed) => (typed.startsWith("/") ? typed : BASE + typed);

// The parts of a stream: below its id in a bucket, below __ds where a path may end in anything.
export const partPath = (name, part) => `${urlPath(name)}${bucketOf(name) === null ? "/__ds" : ""}/${part}`;
export const controlPath = (name, rest) => `${rootOf(name)}__ds/${rest}`;

export const formatOffset = (offset) => String(offset).padStart(16, "0");
