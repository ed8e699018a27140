// Whether anybody looks. A browser has six connections for a server, and every live stream takes one: a tab that nobody
// has looked at for a while lets its own go, and goes on when it is looked at again.

const PATIENCE_MS = 5000;

export const untilSeen = (signal) =>
  new Promise((resolve) => {
    if (!document.hidden || signal.aborted) { resolve(); return; }
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look, { once: true });
  });

// A signal that is given when another one is, or when nobody has looked for a while.
export function seen(signal) {
  const ending = new AbortController();
  let timer = 0;
  const end = () => ending.abort();
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(end, PATIENCE_MS);
  };
  look();
  document.addEventListener("visibilitychange", look);
  signal.addEventListener("abort", end, { once: true });
  return {
    signal: ending.signal,
    end: () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", end);
    },
  };
}
