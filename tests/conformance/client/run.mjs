// Runs one variant of the suite with one adapter: node --import tsx run.mjs VARIANT REPORT ADAPTER [ARGUMENT…]

import { writeFileSync } from "node:fs"
import { resolve } from "node:path"
import { pathToFileURL } from "node:url"

const [variant, report, clientAdapter, ...clientArgs] = process.argv.slice(2)
const runner = pathToFileURL(resolve(variant, "src/runner.ts"))
const { runConformanceTests } = await import(runner.href)
const summary = await runConformanceTests({ clientAdapter, clientArgs, testTimeout: 40_000 })
writeFileSync(report, JSON.stringify(summary))
process.exit(0)
