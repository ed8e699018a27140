// The log of a stream, alive: opened at its end and followed, or opened elsewhere and extended, both ways, as somebody
// scrolls; at the end it is followed too. Without a name it stands still.

import { useCallback, useRef, useState } from "../../vendor/preact.js";
import { Log } from "../log.js";
import { formatOffset } from "../names.js";
import { useRedraw, useToken, useWork } from "../parts/hooks.js";
import { REPLACED, behind, describe, follow, lastPage, pageBefore, pageFrom } from "../reading.js";

const FIRST_MESSAGES = 500;
const EARLIER_MESSAGES = 2000;
const RATE_SLOTS = 60;
const READ_AHEAD_BYTES = 4_000_000;

export function useLog(name, generation = 0) {
  const redraw = useRedraw();
  const given = useToken();
  const [from, setFrom] = useState({ kind: "tail" });
  const [paused, setPaused] = useState(false);
  const [turn, setTurn] = useState(0);
  const live = useRef(null);
  const shift = useRef(0);
  const holding = useRef(false);
  holding.current = paused;

  useWork(async (signal) => {
    if (name === null) return;
    const now = { from, about: live.current?.about ?? null, log: null, state: "connecting", error: null, lost: 0, dropped: 0, rates: new Array(RATE_SLOTS).fill(0), more: true, arrived: 0 };
    live.current = now;
    shift.current = 0;
    redraw();
    const onState = (state, error = null) => { now.state = state; now.error = error; if (state === "closed" && now.about) now.about.closed = true; redraw(); };
    const onPage = (page) => {
      const dropped = now.log.append(page);
      if (dropped) { shift.current -= dropped; now.dropped += dropped; now.more = true; }
      now.about.tail = Math.max(now.about.tail, now.log.end);
      if (!holding.current) redraw();
    };
    const onLost = (earliest) => { now.lost += earliest - now.log.end; now.log.restart(earliest); now.about.earliest = earliest; now.more = false; };
    try {
      now.about = await describe(name, { signal });
      now.log = await open(name, now.about, from, signal);
      now.more = !now.about.plain && now.log.start > now.about.earliest;
      redraw();
      const timer = setInterval(() => { now.rates.push(now.arrived); now.rates.shift(); now.arrived = 0; if (now.rates.some(Boolean)) redraw(); }, 1000);
      signal.addEventListener("abort", () => clearInterval(timer));
      if (behind(now.log, now.about)) onState("reading");
      while (behind(now.log, now.about) && !signal.aborted) {
        await new Promise((resolve) => { now.later = resolve; signal.addEventListener("abort", resolve, { once: true }); });
        if (signal.aborted) return;
        const page = await pageFrom(name, now.about, now.log, signal);
        if (!page.count) break;
        onPage(page);
      }
      await follow(name, now.about, now.log, { onPage: (page) => { now.arrived += page.count; onPage(page); }, onState, onLost, signal });
    } catch (error) {
      if (signal.aborted) return;
      onState("failed", error);
      if (error.code === REPLACED) setTurn((before) => before + 1);
    }
  }, [name, from, generation, given, turn]);

  const earlier = useCallback(async () => {
    const now = live.current;
    if (!now?.log?.count || !now.more || now.loading) return;
    now.loading = true;
    try {
      const page = await pageBefore(name, now.about, now.log.start, EARLIER_MESSAGES);
      if (live.current !== now || page.ends[page.count - 1] !== now.log.start) { now.more = page.count > 0; return; }
      shift.current += now.log.prepend(page);
      now.dropped -= page.count;
      now.more = now.log.start > now.about.earliest;
    } catch (error) {
      // What was before may have gone since: that is nobody's mistake.
      now.more = false;
      const { earliest } = await describe(name).catch(() => now.about);
      now.about.earliest = earliest;
      if (earliest < now.log.start) now.error = error;
    } finally {
      now.loading = false;
      redraw();
    }
  }, [name]);

  const later = useCallback(() => live.current?.later?.(), []);
  const pause = useCallback((given) => { setPaused(given); redraw(); }, []);
  const current = live.current?.from === from ? live.current : { state: "connecting", rates: [], about: live.current?.about ?? null };
  return { ...current, from, paused, shift, earlier, later, pause, jump: setFrom };
}

async function open(name, about, from, signal) {
  if (about.plain) return openPlain(name, about, from, signal);
  if (from.kind === "tail") {
    const page = await lastPage(name, about, FIRST_MESSAGES, signal);
    const log = new Log(page.count ? page.first : about.tail);
    log.append(page);
    return log;
  }
  const start = from.kind === "beginning" ? about.earliest : from.offset ?? (await describe(name, { query: `?at=${from.at}`, signal })).offset;
  const log = new Log(start, from.text ?? formatOffset(start));
  log.append(await pageFrom(name, about, log, signal));
  return log;
}

// A server that can't be asked for its last messages is read from the beginning, if that is not too far from the end.
async function openPlain(name, about, from, signal) {
  const log = new Log(0, from.text ?? "-1");
  do {
    const page = await pageFrom(name, about, log, signal);
    if (!page.count) { log.at = page.until; break; }
    log.append(page);
  } while (from.kind === "tail" && behind(log, about) && log.bytes < READ_AHEAD_BYTES);
  return from.kind === "tail" && behind(log, about) && log.bytes >= READ_AHEAD_BYTES ? new Log(0, about.tailText) : log;
}
