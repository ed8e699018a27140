// The text of /metrics, read into samples; rates and quantiles from two scrapes.

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text) {
  const samples = new Map();
  for (const line of text.split("\n")) {
    const found = line[0] === "#" ? null : SAMPLE.exec(line);
    if (!found) continue;
    const labels = Object.fromEntries([...(found[2] ?? "").matchAll(LABEL)].map(([, name, value]) => [name, value]));
    const list = samples.get(found[1]) ?? samples.set(found[1], []).get(found[1]);
    list.push({ labels, value: Number(found[3]) });
  }
  return samples;
}

const fits = (labels, wanted) => Object.entries(wanted).every(([name, value]) => (value instanceof RegExp ? value.test(labels[name]) : labels[name] === value));

export const total = (samples, name, wanted = {}) =>
  samples.has(name) ? samples.get(name).filter(({ labels }) => fits(labels, wanted)).reduce((sum, { value }) => sum + value, 0) : null;

// What was counted between two scrapes, a second.
export function rate(before, after, name, wanted) {
  const [old, now] = [total(before.samples, name, wanted), total(after.samples, name, wanted)];
  return old === null || now === null ? null : Math.max(0, ((now - old) * 1000) / (after.time - before.time));
}

// A quantile of what a histogram took between two scrapes, as the upper bound of its bucket.
export function quantile(before, after, name, share, wanted) {
  const buckets = new Map();
  const add = (scrape, sign) => {
    for (const { labels, value } of scrape.samples.get(`${name}_bucket`) ?? []) {
      if (fits(labels, wanted ?? {})) buckets.set(Number(labels.le.replace("+Inf", "Infinity")), (buckets.get(Number(labels.le.replace("+Inf", "Infinity"))) ?? 0) + sign * value);
    }
  };
  add(after, 1);
  add(before, -1);
  const bounds = [...buckets.keys()].sort((left, right) => left - right);
  const all = buckets.get(Infinity) ?? 0;
  if (!all) return null;
  const found = bounds.find((bound) => buckets.get(bound) >= share * all);
  return Number.isFinite(found) ? found : bounds.at(-2);
}
