// Single messages at a fixed rate (open model): k6 run -e RATE=2000 publish.ts
import http from "k6/http";
import { check } from "k6";
import type { Options } from "k6/options";
import { body, duration, ensureTopic, parsed, server, topic, whole, type Published } from "./lib.ts";

const rate = whole("RATE", 1000);
const size = whole("SIZE", 100);

export const options: Options = {
  scenarios: {
    publish: {
      executor: "constant-arrival-rate",
      rate,
      timeUnit: "1s",
      duration,
      preAllocatedVUs: whole("VUS", 50),
      maxVUs: whole("MAX_VUS", 500),
    },
  },
  thresholds: { http_req_failed: ["rate==0"], checks: ["rate==1"] },
};

export const setup = ensureTopic;

export default function (): void {
  const answer = http.post(`${server}/v1/topics/${topic}/messages`, body(size), {
    headers: { "Content-Type": "text/plain" },
    tags: { name: "publish" },
  });
  const message = parsed<Published>(answer, "published", [201]);
  if (message) check(message, { "has an offset": (m) => Number.isInteger(m.offset) && m.offset >= 0 });
}
