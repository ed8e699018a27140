// A chat page. It keeps nothing but the name of the chat: everything it shows, it reads from streams.

const chat = chatOfThisPage();
const readers = { "event-source": readWithEventSource, client: readWithClient };
const element = (id) => document.getElementById(id);
let underWay = null; // the turn that is being answered

// Two ways to read a turn. Both give every message once, in order, over lost connections.

/** The browser's own: it reconnects by itself, and says in Last-Event-ID what it has had. */
function readWithEventSource({ turn }, onMessage) {
  return new Promise((resolve) => {
    const source = new EventSource(`/api/chats/${chat}/${turn}`);
    source.onmessage = (event) => onMessage(JSON.parse(event.data));
    source.addEventListener("end", () => {
      source.close();
      resolve();
    });
    source.onerror = () => source.readyState === EventSource.CLOSED && resolve(); // refused, not just interrupted
  });
}

/** The official client of Durable Streams: it reads the stream itself, not through the application. */
async function readWithClient({ stream: url }, onMessage) {
  const { stream } = await import("/durable-streams.js");
  const response = await stream({ url, offset: "-1", live: true, json: true });
  for await (const message of response.jsonStream()) onMessage(message);
}

// Turns

async function show(turn) {
  element("hint").hidden = true;
  const article = element("turn").content.cloneNode(true).firstElementChild;
  element("turns").append(article);
  article.classList.add("under-way");
  begin(turn);
  await readers[reader()](turn, (message) => take(article, message)).catch((error) => take(article, { error }));
  article.classList.remove("under-way");
  end(turn);
}

function take(article, message) {
  const part = (name) => article.querySelector(`.${name}`);
  if (message.type === "question") part("question").textContent = message.text;
  else if (message.type === "text") part("answer").textContent += message.text;
  else note(part("note"), message);
  const main = element("turns");
  if (main.scrollHeight - main.scrollTop - main.clientHeight < 120) main.scrollTo(0, main.scrollHeight);
}

function note(line, message) {
  line.hidden = false;
  line.textContent = message.type === "stopped" ? "You stopped this answer." : `Something went wrong: ${message.error?.message}.`;
}

function begin(turn) {
  underWay = turn;
  element("send").hidden = true;
  element("stop").hidden = false;
}

function end(turn) {
  if (underWay !== turn) return;
  underWay = null;
  element("send").hidden = false;
  element("stop").hidden = true;
}

// What the person does

element("composer").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = element("question").value.trim();
  if (!text || underWay) return;
  element("question").value = "";
  const turn = { turn: `${Date.now()}-${crypto.randomUUID().slice(0, 4)}` };
  begin(turn);
  try {
    turn.stream = await start(turn, text);
    await show(turn);
  } catch {
    element("question").value ||= text;
  }
  end(turn);
});

async function start({ turn }, text) {
  const started = await fetch(`/api/chats/${chat}/${turn}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ text }),
  });
  // The answer is on its way into its stream, and that is where it is read from: this response is not needed.
  started.body.cancel();
  if (!started.ok) throw new Error(started.statusText);
  return started.headers.get("Location");
}

element("stop").addEventListener("click", () => fetch(`/api/chats/${chat}/${underWay.turn}/stop`, { method: "POST" }));
element("new").addEventListener("click", () => (location.hash = crypto.randomUUID().slice(0, 8)));
addEventListener("hashchange", () => location.reload());

element("reader").addEventListener("change", (event) => {
  localStorage.setItem("reader", event.target.value);
  location.reload();
});

// What the page begins with

function reader() {
  return localStorage.getItem("reader") in readers ? localStorage.getItem("reader") : "event-source";
}

function chatOfThisPage() {
  if (!/^#[a-z0-9-]{1,40}$/.test(location.hash)) {
    history.replaceState(null, "", `#${crypto.randomUUID().slice(0, 8)}`);
  }
  return location.hash.slice(1);
}

document.querySelector(`input[value=${reader()}]`).checked = true;
for (const turn of await (await fetch(`/api/chats/${chat}`)).json()) show(turn);
