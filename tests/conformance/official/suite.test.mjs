// Runs the official suite against CONFORMANCE_URL. A failed property prints its seed: CONFORMANCE_SEED replays it.

import fc from "fast-check"
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

const { CONFORMANCE_URL, CONFORMANCE_SEED } = process.env

if (!CONFORMANCE_URL) throw new Error("CONFORMANCE_URL must be the origin of the server under test")
if (CONFORMANCE_SEED) fc.configureGlobal({ seed: Number(CONFORMANCE_SEED) })

runConformanceTests({
  baseUrl: CONFORMANCE_URL,
  longPollTimeoutMs: 10_000, // only how long the suite gives its own tests: the server ends a poll much sooner
  subscriptions: true,
})
