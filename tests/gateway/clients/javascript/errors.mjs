// What goes wrong, in the SDK's own classes.
const input = "Nobody says this.";

export const noSuchModel = (client) => client.audio.speech.create({ model: "tts-9", voice: "alloy", input });
export const noSuchModelToRetrieve = (client) => client.models.retrieve("tts-9");
export const noSuchVoice = (client) => client.audio.speech.create({ model: "tts-1", voice: "nobody", input });
export const noSuchField = (client) =>
  client.audio.speech.create({ model: "tts-1", voice: "alloy", input, loudness: 11 });
export const noRecording = async (client, { recording }) =>
  client.audio.transcriptions.create({ model: "whisper-1", file: await recording(), include: ["logprobs"] });
export const wrongPlace = (client, { speaker }) =>
  client.chat.completions.create({ model: speaker, messages: [{ role: "user", content: "Hello." }] });
export const wrongKey = (client) => client.withOptions({ apiKey: "sk-wrong" }).models.list();
