// What components share: redrawing once a frame however often something changes, work that ends with its component.

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact.js";
import { kept, onToken } from "../server.js";

export function useRedraw() {
  const [, draw] = useState(0);
  const due = useRef(0);
  useEffect(() => () => cancelAnimationFrame(due.current), []);
  return useCallback(() => {
    if (due.current) return;
    due.current = requestAnimationFrame(() => { due.current = 0; draw((drawn) => drawn + 1); });
  }, []);
}

// A number that changes with the token: work that was refused begins anew with another one.
export function useToken() {
  const [given, count] = useState(0);
  useEffect(() => onToken(() => count((before) => before + 1)), []);
  return given;
}

// It begins before anything is painted: what is asked of the server is on its way while the browser draws.
export function useWork(work, dependencies) {
  useLayoutEffect(() => {
    const ending = new AbortController();
    work(ending.signal);
    return () => ending.abort();
  }, dependencies);
}

export function useEvery(ms, action, dependencies) {
  useWork((signal) => {
    const timer = setInterval(() => { if (!document.hidden) action(); }, ms);
    signal.addEventListener("abort", () => clearInterval(timer));
    action();
  }, dependencies);
}

export function useStored(key, initial) {
  const [value, set] = useState(() => kept(() => localStorage.getItem(`everbrook.${key}`)) ?? initial);
  const store = useCallback((given) => { kept(() => localStorage.setItem(`everbrook.${key}`, given)); set(given); }, [key]);
  return [value, store];
}
