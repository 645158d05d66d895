// A recording in, its text out.
const written = (fields) => async (client, { recording }) =>
  client.audio.transcriptions.create({ model: "whisper-1", file: await recording(), ...fields });
export const json = written({});
export const text = written({ response_format: "text" });
export const verbose = written({
  response_format: "verbose_json",
  timestamp_granularities: ["segment"],
  language: "en",
  prompt: "A name.",
});
export const srt = written({ response_format: "srt" });
export const vtt = written({ response_format: "vtt" });

export async function streamed(client, { recording }) {
  const events = await client.audio.transcriptions.create({
    model: "gpt-4o-transcribe",
    file: await recording(),
    stream: true,
  });
  const told = [];
  for await (const event of events) told.push(event);
  return told;
}

const inEnglish = (response_format) => async (client, { recording }) =>
  client.audio.translations.create({ model: "whisper-1", file: await recording(), response_format });
export const translated = inEnglish("json");
export const translatedVerbosely = inEnglish("verbose_json");
