// What the shipped runner lets pass, told as failures.
//
// The shipped runner looks at an expectation only where the result has the shape for it: an adapter that answers with
// an error, with another type or without a field is never compared, and the set-up of a test may fail unseen. Here
// every expectation is one that is known, is met by a result of the right type, and is looked at.

const STORES = ["storeAs", "storeOffsetAs", "storeDataAs"]
const OF_ERRORS = ["errorCode", "messageContains", "errorContains"]
const OF_READS = ["data", "dataContains", "dataContainsAll", "dataExact", "chunkCount", "minChunks", "upToDate"]
const OF_HEADS = ["contentType", "hasOffset"]
const OF_CLOSES = ["finalOffset"]
const OF_REQUESTS = ["headersSent", "paramsSent"]
const OF_PRODUCERS = ["duplicate", "producerEpoch", "producerSeq", "producerExpectedSeq", "producerReceivedSeq"]
const OF_BATCHES = ["allSucceed", "succeedIndices", "failIndices"]
const OF_ANY = ["status", "error", "success", "valid", "streamClosed"]
const KNOWN = new Set([
  ...STORES, ...OF_ERRORS, ...OF_READS, ...OF_HEADS, ...OF_CLOSES, ...OF_REQUESTS, ...OF_PRODUCERS, ...OF_BATCHES, ...OF_ANY,
])

const TYPES = { "append-batch": "append", await: "read", "server-append": "append", "server-close": "close" }
const NEEDED_TYPES = [
  [OF_READS, ["read"]], [OF_HEADS, ["head"]], [OF_CLOSES, ["close", "idempotent-close"]], [OF_REQUESTS, ["append", "read"]],
  [OF_PRODUCERS, ["append"]], [OF_BATCHES, ["append", "idempotent-append-batch"]], [["streamClosed"], ["read", "head"]],
]

/** What is wrong with the results of one operation, or null. `answers` are those of the adapter, `statuses` of direct requests. */
export function fault(operation, result, answers = [], statuses = []) {
  const expect = operation.expect ?? {}
  return (
    unknownKey(expect) ??
    (operation.action.startsWith("server-") ? faultOfDirect(expect, statuses) : faultOfOutcome(operation, expect, result, answers)) ??
    faultOfShape(operation, expect, result) ??
    faultOfBatch(expect, answers)
  )
}

/** Whether an expectation says that the operation must be refused. */
export function refusalExpected(expect) {
  const status = typeof expect.status === "number" && expect.status >= 400
  const told = OF_ERRORS.some((key) => expect[key] !== undefined)
  return status || told || expect.error === true || expect.success === false || expect.valid === false
}

/** The shipped `executeOperation`, after which everything that is expected is looked at, in set-ups too. */
export function strictly(execute, validate) {
  return async (operation, context) => {
    const answers = []
    const { outcome, statuses } = await watchingFetch(() => execute(operation, { ...context, client: recording(context.client, answers) }))
    if (outcome.error || !outcome.result) return outcome
    const found = fault(operation, outcome.result, answers, statuses) ?? validate(outcome.result, operation.expect)
    if (found) return { ...outcome, error: `${operation.action}: ${found}` }
    const missing = keep(operation.expect ?? {}, outcome.result, context.variables)
    return missing ? { ...outcome, error: `${operation.action}: ${missing}` } : outcome
  }
}

/** Every test, also those that were switched off for the sake of another client. */
export function switchedOn(suites) {
  return suites.map((suite) => ({ ...suite, tests: suite.tests.map(({ skip, ...test }) => test) }))
}

function unknownKey(expect) {
  const unknown = Object.keys(expect).filter((key) => !KNOWN.has(key))
  return unknown.length > 0 ? `expectation of unknown kind: ${unknown.join(", ")}` : null
}

function faultOfDirect(expect, statuses) {
  const status = statuses.at(-1)
  const wanted = expect.status ?? "2xx"
  const met = wanted === "2xx" ? status >= 200 && status < 300 : status === wanted
  return met ? null : `the server answered ${status} to the runner, expected ${wanted}`
}

function faultOfOutcome({ action }, expect, result, answers) {
  const partly = action === "append-batch" && expect.failIndices !== undefined
  if (partly) return null
  const told = describe(answers.find((answer) => !answer.success) ?? result)
  if (refusalExpected(expect)) {
    if (result.success) return `expected a refusal, got success`
    if (result.type !== "error") return `expected a result of type error, got ${result.type}`
    return null
  }
  return result.success ? null : `expected success, got ${told}`
}

function faultOfShape({ action }, expect, result) {
  const type = TYPES[action] ?? action
  if (result.success && result.type !== type) return `expected a result of type ${type}, got ${result.type}`
  if (expect.status !== undefined && result.status !== expect.status) return `expected status ${expect.status}, got ${describe(result)}`
  for (const [keys, types] of NEEDED_TYPES) {
    const used = keys.filter((key) => expect[key] !== undefined)
    if (used.length > 0 && !types.includes(result.type)) return `${used.join(", ")} can't be looked at in ${describe(result)}`
  }
  return null
}

function faultOfBatch(expect, answers) {
  const failed = answers.flatMap((answer, index) => (answer.success ? [] : [index]))
  const succeeded = answers.flatMap((answer, index) => (answer.success ? [index] : []))
  if (expect.allSucceed === true && failed.length > 0) return `items ${failed} failed: ${describe(answers[failed[0]])}`
  if (expect.allSucceed === false && failed.length === 0) return "expected some item to fail"
  if (expect.failIndices && !same(expect.failIndices, failed)) return `expected items ${expect.failIndices} to fail, got ${failed}`
  if (expect.succeedIndices && !same(expect.succeedIndices, succeeded)) return `expected items ${expect.succeedIndices} to succeed, got ${succeeded}`
  return null
}

/** Keep what a test wants to use later; the shipped runner keeps some kinds, and takes what is missing for empty text. */
function keep(expect, result, variables) {
  if (expect.storeOffsetAs !== undefined) {
    if (!result.offset && !result.finalOffset) return "there is no offset to keep"
    variables.set(expect.storeOffsetAs, result.offset ?? result.finalOffset)
  }
  if (expect.storeAs !== undefined) variables.set(expect.storeAs, result)
  return null
}

function recording(client, answers) {
  const send = async (...command) => {
    const answer = await client.send(...command)
    answers.push(answer)
    return answer
  }
  return { send }
}

async function watchingFetch(act) {
  const statuses = []
  const { fetch } = globalThis
  globalThis.fetch = async (...request) => {
    const response = await fetch(...request)
    statuses.push(response.status)
    return response
  }
  try {
    return { outcome: await act(), statuses }
  } finally {
    globalThis.fetch = fetch
  }
}

function same(left, right) {
  return left.length === right.length && left.every((value, index) => value === right[index])
}

function describe(result) {
  return result.success ? `${result.type} with status ${result.status}` : `${result.errorCode} (${result.status}): ${result.message}`
}
