// node run.mjs THEME FOLDER: run every scenario of THEME.mjs at once, and print what each gave as one line of JSON.
// As an application of OpenAI's does it: nothing is ours but baseURL and apiKey.
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import OpenAI, { toFile } from "openai";

const [theme, folder] = process.argv.slice(2);
const client = new OpenAI({
  baseURL: process.env.GATEWAY,
  apiKey: process.env.GATEWAY_KEY,
  maxRetries: 0,
  timeout: 120_000,
});
const vowels = await readFile(path.join(folder, "vowels.wav"));
const help = {
  ...JSON.parse(process.env.GATEWAY_MODELS),
  recording: (name = "vowels.wav") => toFile(vowels, name),
  heard: (text) => [
    { type: "text", text },
    { type: "input_audio", input_audio: { data: vowels.toString("base64"), format: "wav" } },
  ],
  save: async (name, data) => {
    await writeFile(path.join(folder, name), data);
    return name;
  },
};

async function outcome(scenario) {
  try {
    return { answer: await scenario(client, help) };
  } catch (error) {
    const { status, code, param, type, message } = error;
    const headers = Object.fromEntries(error.headers ?? []);
    return { failure: { class: error.constructor.name, status, code, param, type, message, headers } };
  }
}

const scenarios = Object.entries(await import(`./${theme}.mjs`));
const told = await Promise.all(scenarios.map(async ([name, scenario]) => [name, await outcome(scenario)]));
console.log(JSON.stringify(Object.fromEntries(told)));
