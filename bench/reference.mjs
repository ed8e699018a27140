// Runs the Node reference server: node reference.mjs PORT [FOLDER]
//
// Without a folder it keeps streams in memory; with one it keeps them in files, each append synced before it is
// answered. Everything else is left at the package's own defaults. Compression is on by default but only answers an
// Accept-Encoding header, which the load never sends; no lifecycle hook, registry or webhook is configured.
import { DurableStreamTestServer } from "@durable-streams/server"

const [port, dataDir] = process.argv.slice(2)
const server = new DurableStreamTestServer({ host: "127.0.0.1", port: Number(port), dataDir })
process.on("SIGTERM", () => process.exit(0))
await server.start()
