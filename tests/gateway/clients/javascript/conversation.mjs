// Chat with recordings in, text and sound out.
const TRANSCRIBE = "Write down what is said in this recording, and nothing else.";
const written = (client, { listener, heard }, more) =>
  client.chat.completions.create({
    model: listener,
    messages: [{ role: "user", content: heard(TRANSCRIBE) }],
    modalities: ["text"],
    temperature: 0,
    ...more,
  });
const spoken = (client, { listener, heard }, audio, more) =>
  client.chat.completions.create({
    model: listener,
    messages: [{ role: "user", content: heard("Answer this recording.") }],
    modalities: ["text", "audio"],
    audio,
    max_completion_tokens: 120,
    ...more,
  });

export async function plain(client, help) {
  const { choices } = await written(client, help, {});
  return { content: choices[0].message.content, reason: choices[0].finish_reason };
}

export async function streamed(client, help) {
  const deltas = [];
  for await (const event of await written(client, help, { stream: true })) {
    for (const choice of event.choices) if (choice.delta.content) deltas.push(choice.delta.content);
  }
  return deltas;
}

export async function aloud(client, help) {
  const { choices } = await spoken(client, help, { voice: "alloy", format: "mp3" }, {});
  const { audio, content } = choices[0].message;
  const name = await help.save("aloud.mp3", Buffer.from(audio.data, "base64"));
  return { name, content, transcript: audio.transcript, reason: choices[0].finish_reason };
}

export async function aloudStreamed(client, help) {
  const sounds = [];
  let transcript = "";
  let reason = null;
  for await (const event of await spoken(client, help, { voice: "alloy", format: "pcm16" }, { stream: true })) {
    for (const choice of event.choices) {
      const audio = choice.delta.audio ?? {};
      if (audio.data) sounds.push(Buffer.from(audio.data, "base64"));
      transcript += audio.transcript ?? "";
      reason = choice.finish_reason ?? reason;
    }
  }
  return { name: await help.save("aloud.pcm", Buffer.concat(sounds)), pieces: sounds.length, transcript, reason };
}
