// Batches from a fixed number of connections (closed model): k6 run -e BATCH=1000 -e VUS=8 batch.ts
import http from "k6/http";
import { check } from "k6";
import { Counter } from "k6/metrics";
import type { Options } from "k6/options";
import { body, duration, ensureTopic, json, parsed, server, topic, whole, type BatchAnswer } from "./lib.ts";

const batch = whole("BATCH", 100);
const size = whole("SIZE", 100);
const published = new Counter("messages_published");

export const options: Options = {
  scenarios: { batch: { executor: "constant-vus", vus: whole("VUS", 8), duration } },
  thresholds: { http_req_failed: ["rate==0"], checks: ["rate==1"] },
};

export const setup = ensureTopic;

export default function (): void {
  const messages: { value: string }[] = [];
  for (let i = 0; i < batch; i++) messages.push({ value: `${i}-${body(size)}` });
  const answer = http.post(`${server}/v1/topics/${topic}/messages/batch`, JSON.stringify({ messages }), {
    ...json,
    tags: { name: "batch" },
  });
  const results = parsed<BatchAnswer>(answer, "batch answered", [200]);
  if (!results) return;
  check(results, {
    "none failed": (r) => r.failed === 0,
    "a result each": (r) => r.results.length === batch,
  });
  published.add(results.results.length - results.failed);
}
