// What the scripts share: settings from the environment, and the shapes of the answers they look into.
import http, { type RefinedResponse, type ResponseType } from "k6/http";
import { check, fail } from "k6";

export const server = (__ENV.SPLASHDAM_SERVER ?? "http://127.0.0.1:8080").replace(/\/+$/, "");
export const topic = __ENV.TOPIC ?? "k6";
export const group = __ENV.GROUP ?? "k6";
export const duration = __ENV.DURATION ?? "30s";

/** A whole number from the environment; anything else ends the run with a message. */
export function whole(name: string, fallback: number): number {
  const text = __ENV[name];
  if (text === undefined || text === "") return fallback;
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) fail(`${name} must be a whole number of 1 or more, not ${text}`);
  return value;
}

export interface Published {
  id: string;
  partition: number;
  offset: number;
}

export interface Problem {
  code: string;
  detail?: string;
  retryable: boolean;
}

export interface BatchAnswer {
  results: (Published | { error: Problem })[];
  failed: number;
}

export interface Received {
  messages: { id: string; receipt: string; partition: number; offset: number; attempt: number; value: string }[];
}

export const json = { headers: { "Content-Type": "application/json" } };

/** A body of n characters that differs per iteration, so that nothing along the way can fold two into one. */
export function body(n: number): string {
  const head = `${__VU}-${__ITER}-`;
  return head.length >= n ? head : head + "x".repeat(n - head.length);
}

/** Checks the status and parses the body; undefined when the check failed. */
export function parsed<T>(answer: RefinedResponse<ResponseType>, what: string, statuses: number[]): T | undefined {
  const good = check(answer, { [what]: (r) => statuses.includes(r.status) });
  if (!good || answer.body === null) return undefined;
  // The shapes above are the server's promise (openapi.json); its own tests hold it to that.
  return answer.json() as unknown as T;
}

/** The topic must be there before the first consumer asks for it; made with its defaults if it is not. */
export function ensureTopic(): void {
  const answer = http.put(`${server}/v1/topics/${topic}`, "{}", {
    headers: { "Content-Type": "application/json", "If-None-Match": "*" },
    // 412 is the answer when it exists, and no failure of the run.
    responseCallback: http.expectedStatuses(200, 201, 412),
  });
  if (![200, 201, 412].includes(answer.status)) fail(`topic ${topic}: ${answer.status} ${String(answer.body)}`);
}
