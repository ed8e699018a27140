// The official TypeScript client, told what to do by lines of JSON on stdin; each is answered by a line on stdout.
// Binary data travels as base64. Commands run at the same time, so that one may follow while another appends.

import { createInterface } from "node:readline"
import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client"
import { MaterializedState, createStateSchema } from "@durable-streams/state"
import { createStreamDB } from "@durable-streams/state/db"

console.log = console.info = console.error // stdout is for answers alone

const anything = { "~standard": { version: 1, vendor: "everbrook", validate: (value) => ({ value }) } }
const people = createStateSchema({ people: { schema: anything, type: "person", primaryKey: "id" } })
const databases = new Map()

const payload = (item) => (item.base64 === undefined ? item.text : new Uint8Array(Buffer.from(item.base64, "base64")))
const handle = ({ url, contentType, batching }) =>
  new DurableStream({ url, contentType: contentType ?? "application/json", batching })

const seen = (response, content) => ({ ...content, offset: response.offset, closed: response.streamClosed })

async function collect(response, as) {
  if (as === "json") return seen(response, { items: await response.json() })
  if (as === "text") return seen(response, { text: await response.text() })
  return seen(response, { base64: Buffer.from(await response.body()).toString("base64") })
}

async function subscribed(response) {
  const batches = []
  response.subscribeJson(async (batch) => {
    batches.push(batch.items)
  })
  await response.closed
  return seen(response, { batches })
}

const commands = {
  async create({ url, contentType, closed, body, ttlSeconds }) {
    await DurableStream.create({ url, contentType, closed, body: body && payload(body), ttlSeconds })
  },
  async append({ items, ...where }) {
    const at = handle(where)
    await Promise.all(items.map((item) => at.append(payload(item))))
  },
  async produce({ producerId, epoch, items, close, autoClaim, lingerMs, ...where }) {
    const producer = new IdempotentProducer(handle(where), producerId, { epoch, autoClaim, lingerMs, maxInFlight: 5 })
    for (const item of items) producer.append(payload(item))
    await producer.flush()
    const closed = close ? await producer.close() : await producer.detach()
    return { epoch: producer.epoch, nextSeq: producer.nextSeq, finalOffset: closed?.finalOffset }
  },
  async close({ body, ...where }) {
    return await handle(where).close(body && { body: payload(body) })
  },
  async head(where) {
    return await handle(where).head()
  },
  async delete(where) {
    await handle(where).delete()
  },
  // With `live` it goes on until the stream is closed.
  async read({ url, offset = "-1", live = false, as }) {
    return await collect(await stream({ url, offset, live }), as)
  },
  async batches({ url, offset = "-1", live }) {
    return await subscribed(await stream({ url, offset, live }))
  },
  // What each event of a stream of text or bytes brings.
  async pieces({ url, text }) {
    const response = await stream({ url, offset: "-1", live: "sse" })
    const pieces = []
    if (text) response.subscribeText(async (chunk) => { pieces.push(chunk.text) })
    else response.subscribeBytes(async (chunk) => { pieces.push(Buffer.from(chunk.data).toString()) })
    await response.closed
    return seen(response, { pieces: pieces.filter(Boolean) })
  },
  async materialise({ url }) {
    const state = new MaterializedState()
    state.applyBatch(await (await stream({ url, offset: "-1", live: false })).json())
    return { people: Object.fromEntries(state.getType("person")) }
  },
  async openDatabase({ url, live }) {
    const db = createStreamDB({ streamOptions: { url, contentType: "application/json" }, live, state: people })
    databases.set(url, db)
    await db.preload()
    return { people: db.collections.people.toArray }
  },
  async awaitTransaction({ url, txid }) {
    const db = databases.get(url)
    await db.utils.awaitTxId(txid, 10_000)
    return { people: db.collections.people.toArray }
  },
  async closeDatabase({ url }) {
    databases.get(url).close()
    databases.delete(url)
  },
  async appendEvents({ url, events }) {
    const at = handle({ url })
    for (const { operation, ...event } of events) await at.append(JSON.stringify(people.people[operation](event)))
  },
}

async function answer({ id, command, ...options }) {
  try {
    return { id, result: (await commands[command](options)) ?? {} }
  } catch (error) {
    const { name, message, code, status, currentEpoch } = error
    return { id, error: { name, message, code, status, currentEpoch } }
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  void answer(JSON.parse(line)).then((result) => process.stdout.write(JSON.stringify(result) + "\n"))
}
process.exit(0)
