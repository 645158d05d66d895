// A gateway with one place and no queue: the second request is told to come back, and the SDK does so by itself.
const request = (input) => ({ model: "tts-1", voice: "alloy", input, response_format: "pcm", stream_format: "audio" });
const LONG = "This takes a while to say, and somebody waits for every word of it. ";

export async function together(client) {
  const first = await client.audio.speech.create(request(LONG));
  const refused = await client.audio.speech.create(request("Me too.")).then(
    () => null,
    (error) => ({ class: error.constructor.name, code: error.code, wait: error.headers.get("retry-after") }),
  );
  const patient = client.audio.speech.create(request("Me too."), { maxRetries: 8 });
  const sizes = [(await first.arrayBuffer()).byteLength, (await (await patient).arrayBuffer()).byteLength];
  return { refused, sizes };
}
