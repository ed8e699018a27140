// Runs the Node reference server in memory mode: node reference.mjs PORT
//
// Everything is left at the package's own defaults. Compression is on by default but only answers an
// Accept-Encoding header, which the load never sends; no lifecycle hook, registry or webhook is configured.
import { DurableStreamTestServer } from "@durable-streams/server"

const server = new DurableStreamTestServer({ host: "127.0.0.1", port: Number(process.argv[2]) })
process.on("SIGTERM", () => process.exit(0))
await server.start()
