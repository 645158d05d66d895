// node leaving.mjs: begin to listen, stop with an AbortController, and stay until stdin ends.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.GATEWAY, apiKey: process.env.GATEWAY_KEY, maxRetries: 0 });
const controller = new AbortController();
const answer = await client.audio.speech.create(
  {
    model: "tts-1",
    voice: "alloy",
    input: "This takes a while to say, and somebody waits for every word of it. ".repeat(4),
    response_format: "pcm",
    stream_format: "audio",
  },
  { signal: controller.signal },
);
try {
  for await (const piece of answer.body) {
    console.log(piece.length);
    controller.abort();
  }
  console.log("it came to its end");
} catch (error) {
  console.log(error.name);
}
for await (const _ of process.stdin);
