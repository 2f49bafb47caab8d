// Receive and acknowledge beside a publisher: k6 run -e RATE=500 -e CONSUMERS=4 consume.ts
import http from "k6/http";
import { check } from "k6";
import { Counter } from "k6/metrics";
import type { Options } from "k6/options";
import { body, duration, ensureTopic, group, json, parsed, server, topic, whole, type Received } from "./lib.ts";

const max = whole("MAX", 100);
const size = whole("SIZE", 100);
const acked = new Counter("messages_acked");
const redelivered = new Counter("messages_redelivered");

export const options: Options = {
  scenarios: {
    publish: {
      executor: "constant-arrival-rate",
      exec: "publish",
      rate: whole("RATE", 500),
      timeUnit: "1s",
      duration,
      preAllocatedVUs: whole("VUS", 20),
      maxVUs: whole("MAX_VUS", 200),
    },
    consume: { executor: "constant-vus", exec: "consume", vus: whole("CONSUMERS", 4), duration },
  },
  thresholds: { http_req_failed: ["rate==0"], checks: ["rate==1"], messages_acked: ["count>0"] },
};

export const setup = ensureTopic;

export function publish(): void {
  const answer = http.post(`${server}/v1/topics/${topic}/messages`, body(size), { tags: { name: "publish" } });
  parsed(answer, "published", [201]);
}

export function consume(): void {
  const answer = http.post(
    `${server}/v1/topics/${topic}/groups/${group}/receive`,
    JSON.stringify({ max, wait: "2s" }),
    { ...json, tags: { name: "receive" } },
  );
  const received = parsed<Received>(answer, "received", [200]);
  if (!received || received.messages.length === 0) return;
  redelivered.add(received.messages.filter((m) => m.attempt > 1).length);

  const ack = received.messages.map((m) => m.receipt);
  const settled = http.post(`${server}/v1/settle`, JSON.stringify({ ack }), { ...json, tags: { name: "ack" } });
  if (check(settled, { "all acknowledged": (r) => r.status === 200 })) acked.add(ack.length);
}
