// One turn of the official TypeScript client: `node driver.mjs CASE '{"url": …}'`. Prints what it took, as JSON.

import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client"

const [name, given] = process.argv.slice(2)
const options = JSON.parse(given)
const { url, messages, bytes } = options

const message = (number) => JSON.stringify({ id: number, kind: "bench", value: number / 2, room: "x".repeat(bytes) })
const seconds = (begin) => (performance.now() - begin) / 1000
const wall = () => performance.timeOrigin + performance.now()

const cases = {
  async produce(count) {
    const handle = new DurableStream({ url, contentType: "application/json" })
    const producer = new IdempotentProducer(handle, `bench-${process.pid}-${count}-${Math.random()}`)
    const texts = Array.from({ length: count }, (_, number) => message(number))
    const begin = performance.now()
    for (const text of texts) producer.append(text)
    await producer.flush()
    const took = seconds(begin)
    await producer.detach()
    return { took, done: count }
  },
  async append(count) {
    const handle = new DurableStream({ url, contentType: "application/json" })
    const begin = performance.now()
    for (let number = 0; number < count; number++) await handle.append(message(number))
    return { took: seconds(begin), done: count }
  },
  async together(count) {
    const handle = new DurableStream({ url, contentType: "application/json" })
    const begin = performance.now()
    for (let done = 0; done < count; done += 1000)
      await Promise.all(Array.from({ length: 1000 }, (_, number) => handle.append(message(done + number))))
    return { took: seconds(begin), done: count }
  },
  async list() {
    const begin = performance.now()
    // With `live: false` it reads one page. With `live: true` json() goes on until it is up to date, and ends.
    const items = await (await stream({ url, offset: "-1", live: true })).json()
    return { took: seconds(begin), done: items.length, last: items.at(-1).id }
  },
  async each() {
    const begin = performance.now()
    let done = 0
    let last = -1
    for await (const item of (await stream({ url, offset: "-1", live: true })).jsonStream()) {
      last = item.id
      if (++done === messages) break
    }
    return { took: seconds(begin), done, last }
  },
  async follow() {
    const latencies = []
    let begin = 0
    let done = 0
    let cpu = 0
    const response = await stream({ url, offset: "now", live: "sse" })
    process.stdout.write("ready\n")
    for await (const item of response.jsonStream()) {
      if (!begin) [begin, cpu] = [performance.now(), process.cpuUsage()]
      latencies.push(wall() - item.at)
      if (++done === messages) break
    }
    const { user, system } = process.cpuUsage(cpu)
    return { took: seconds(begin), done, latencies, cpu: (user + system) / 1e6 }
  },
}

if (name !== "follow" && options.warm) await cases[name](options.warm)
const before = process.cpuUsage()
const result = await cases[name](messages)
const { user, system } = process.cpuUsage(before)
process.stdout.write(JSON.stringify({ cpu: (user + system) / 1e6, ...result }) + "\n", () => process.exit(0))
