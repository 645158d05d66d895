// Text in, sound out.
const input = "The quick brown fox jumps over the lazy dog.";

const inFormat = (response_format) => async (client, { save }) => {
  const answer = await client.audio.speech.create({ model: "tts-1", voice: "alloy", input, response_format });
  const name = await save(`speech.${response_format ?? "default"}`, Buffer.from(await answer.arrayBuffer()));
  return { name, kind: answer.headers.get("content-type") };
};
export const mp3 = inFormat("mp3");
export const opus = inFormat("opus");
export const aac = inFormat("aac");
export const flac = inFormat("flac");
export const wav = inFormat("wav");
export const pcm = inFormat("pcm");
export const byDefault = inFormat(undefined);

export async function streamed(client, { save }) {
  const answer = await client.audio.speech.create({
    model: "gpt-4o-mini-tts",
    voice: "nova",
    input,
    response_format: "opus",
    stream_format: "audio",
  });
  const pieces = [];
  for await (const piece of answer.body) pieces.push(piece);
  return { name: await save("streamed.opus", Buffer.concat(pieces)), pieces: pieces.length };
}

export async function events(client, { save, speaker }) {
  const answer = await client.audio.speech.create({
    model: speaker,
    voice: "ryan",
    input,
    response_format: "pcm",
    stream_format: "sse",
  });
  const told = [];
  for (const line of (await answer.text()).split("\n")) {
    if (line.startsWith("data: {")) told.push(JSON.parse(line.slice(6)));
  }
  const sounds = told.filter((event) => event.type === "speech.audio.delta").map((event) => event.audio);
  const sound = Buffer.concat(sounds.map((audio) => Buffer.from(audio, "base64")));
  return { name: await save("events.pcm", sound), deltas: sounds.length, last: told.at(-1) };
}

export async function everything(client, { save }) {
  const answer = await client.audio.speech.create({
    model: "gpt-4o-mini-tts-en",
    voice: { id: "nova" },
    input,
    instructions: "Speak softly.",
    response_format: "flac",
    speed: 2.0,
    seed: 3, // a field of vLLM-Omni's: the SDK sends on what it does not know
  });
  return { name: await save("everything.flac", Buffer.from(await answer.arrayBuffer())) };
}
