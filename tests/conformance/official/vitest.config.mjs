import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["suite.test.mjs"],
    testTimeout: 15_000,
    hookTimeout: 15_000,
    pool: "threads", // one process: ending it ends everything
    fileParallelism: false,
    maxConcurrency: 20, // the expiry tests mostly sleep: let all of them sleep at once
  },
})
