// Models and voices.
export async function models(client) {
  const found = [];
  for await (const model of client.models.list()) found.push(model);
  return found;
}

export async function aliases(client) {
  const names = ["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "tts-1-es", "whisper-1", "gpt-4o-transcribe"];
  return Promise.all(names.map((name) => client.models.retrieve(name)));
}

// The SDK has no method for it; an application asks so for what is not in its SDK.
export const voices = (client, { speaker }) => client.get("/audio/voices", { query: { model: speaker } });

export async function requestId(client) {
  const { request_id } = await client.models.list({ headers: { "X-Request-Id": "mine-2" } }).withResponse();
  return request_id;
}
