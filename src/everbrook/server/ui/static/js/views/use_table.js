// The current rows of a stream of changes: from its snapshot, if it has one, and what came after, as it comes.

import { useRef, useState } from "../../vendor/preact.js";
import { Table } from "../changes.js";
import { Log } from "../log.js";
import { formatOffset, partPath } from "../names.js";
import { useRedraw, useToken, useWork } from "../parts/hooks.js";
import { REPLACED, behind, describe, follow, pageFrom } from "../reading.js";
import { request } from "../server.js";
import { decode } from "../text.js";

// The rows as of the snapshot, if there is one that holds changes.
async function fromSnapshot(name, about, table, signal) {
  if (about.snapshot === null) return about.earliest;
  const snapshot = await (await request(partPath(name, `snapshot/${formatOffset(about.snapshot)}`), { signal })).json().catch(() => null);
  if (!Array.isArray(snapshot)) return about.earliest;
  table.load(snapshot, about.snapshot);
  return about.snapshot;
}

export function useTable(name, onChange, generation = 0) {
  const redraw = useRedraw();
  const given = useToken();
  const [turn, setTurn] = useState(0);
  const live = useRef({ table: new Table(), state: "connecting" });
  useWork(async (signal) => {
    if (name === null) return;
    const now = (live.current = { table: new Table(), state: "reading", error: null });
    const take = (page, log) => {
      log.append(page);
      for (let at = log.count - page.count; at < log.count; at++) {
        const { bytes, offset, time } = log.message(at);
        let message = null;
        try { message = JSON.parse(decode(bytes).text); } catch { /* what is no JSON is no change either */ }
        now.table.apply(message, offset, time);
        onChange?.(message, time);
      }
      log.keepLast();
      redraw();
    };
    try {
      const about = await describe(name, { signal });
      const log = about.plain ? new Log(0, "-1") : new Log(await fromSnapshot(name, about, now.table, signal));
      while (behind(log, about) && !signal.aborted) {
        const page = await pageFrom(name, about, log, signal);
        if (!page.count) break;
        take(page, log);
      }
      now.table.settle();
      // Rows whose changes were cut off while nobody looked can't be known: begin anew.
      const onLost = () => setTurn((before) => before + 1);
      await follow(name, about, log, { signal, onLost, onPage: (page) => take(page, log), onState: (state, error) => { now.state = state; now.error = error; redraw(); } });
    } catch (error) {
      if (signal.aborted) return;
      now.state = "failed";
      now.error = error;
      redraw();
      if (error.code === REPLACED) setTurn((before) => before + 1);
    }
  }, [name, generation, given, turn]);
  return live.current;
}
