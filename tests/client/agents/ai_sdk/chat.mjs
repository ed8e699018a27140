// A front end of the AI SDK without its page: sends a message, leaves in the middle of the answer, comes back.
// Prints what it got as JSON: {cut, resumed, afterwards}.

import { DefaultChatTransport, readUIMessageStream } from "ai";

const [url, chunksBeforeLeaving] = process.argv.slice(2);
const transport = new DefaultChatTransport({
  api: url,
  prepareReconnectToStreamRequest: () => ({ api: `${url}/stream` }),
});
const asked = { id: "q1", role: "user", parts: [{ type: "text", text: "How long is the Rhine?" }] };

async function take(stream, count) {
  const reader = stream.getReader();
  const chunks = [];
  while (chunks.length < count) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
  }
  return chunks;
}

async function lastMessage(stream) {
  let last = null;
  for await (const message of readUIMessageStream({ stream, terminateOnError: true })) last = message;
  return last;
}

const leaving = new AbortController();
const sent = await transport.sendMessages({
  chatId: "c1",
  messages: [asked],
  trigger: "submit-message",
  abortSignal: leaving.signal,
});
const cut = await take(sent, Number(chunksBeforeLeaving));
leaving.abort();
const resumed = await lastMessage(await transport.reconnectToStream({ chatId: "c1" }));
const afterwards = await transport.reconnectToStream({ chatId: "c1" });
console.log(JSON.stringify({ cut, resumed, afterwards }));
