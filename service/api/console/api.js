/** The API: calls with the key where one is needed, and the stream of live updates. */

const KEY = "labelwatch.key";
const PATIENCE = 30_000; // an answer this late is as good as none

/** @typedef {RequestInit & { headers?: Record<string, string>, patience?: number }} Options `patience`: milliseconds until it is given up */

/** A call that the service refused, with its own words for it. */
export class ApiError extends Error {
  /** @param {number} status @param {{ detail?: string, title?: string }} problem */
  constructor(status, problem) {
    super(problem.detail ?? problem.title ?? `the service answered ${status}`);
    this.status = status;
  }
}

/** The service can't be reached. */
export class Unreachable extends Error {}

export class Api {
  /** @param {(told: string | null) => Promise<string>} askKey what to do where a key is needed: `told` says what was wrong with the last */
  constructor(askKey) {
    this.askKey = askKey;
    /** @type {Promise<void> | null} */
    this.asking = null;
    /** The service has answered. */
    this.answered = () => {};
    /** There is another key. */
    this.keyed = () => {};
  }

  /**
   * @param {string} path
   * @param {Record<string, unknown>} [query] parts without a value are left out
   * @returns {Promise<any>}
   */
  get(path, query = {}) {
    return this.call(path + queried(query));
  }

  /**
   * @param {string} path
   * @param {unknown} body
   * @returns {Promise<any>}
   */
  post(path, body) {
    return this.call(path, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "Content-Type": "application/json" },
      patience: PATIENCE,
    });
  }

  /**
   * Goes out even while the page is being left.
   * @param {string} path
   * @param {Record<string, unknown>} query
   */
  remove(path, query) {
    return this.call(path + queried(query), { method: "DELETE", keepalive: true });
  }

  /**
   * @param {string} path
   * @param {Options} [options]
   * @returns {Promise<any>}
   */
  async call(path, options = {}) {
    const answer = await this.fetch(path, options);
    return answer.json();
  }

  /**
   * @param {string} path
   * @param {Options} [options]
   * @returns {Promise<Response>}
   */
  async fetch(path, { patience, ...options } = {}) {
    for (;;) {
      await this.asking;
      const key = sessionStorage.getItem(KEY);
      const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
      let answer;
      try {
        answer = await fetch(path, {
          ...options,
          headers,
          cache: "no-store",
          ...(patience ? { signal: AbortSignal.timeout(patience) } : {}),
        });
      } catch (error) {
        if (error instanceof DOMException && error.name === "AbortError") throw error;
        throw new Unreachable("the service does not answer");
      }
      if (answer.ok) {
        this.answered();
        return answer;
      }
      const problem = await answer.json().catch(() => ({}));
      if (answer.status !== 401) throw new ApiError(answer.status, problem);
      // Of several calls refused at once the first asks; by then another may have brought a new key.
      if (key === sessionStorage.getItem(KEY)) await this.needKey(key ? problem.detail : null);
    }
  }

  /** @param {string | null} told */
  needKey(told) {
    this.asking ??= this.askKey(told)
      .then((key) => this.use(key))
      .finally(() => {
        this.asking = null;
      });
    return this.asking;
  }

  /** @param {string} key */
  use(key) {
    sessionStorage.setItem(KEY, key);
    this.keyed();
  }
}

/** @param {Record<string, unknown>} query */
function queried(query) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") parts.set(name, String(value));
  }
  return parts.size ? `?${parts}` : "";
}

/**
 * Live updates. `EventSource` can't send a key, so the stream is read by hand.
 * @param {Api} api
 * @param {{ changed: (counts: Record<string, number>) => void, state: (live: boolean) => void, back: (again: () => void) => void }} told
 *   `back` gets what ends the pause before the next try
 */
export async function listen(api, told) {
  let pause = 1000;
  for (;;) {
    try {
      const answer = await api.fetch("v1/events", { headers: { Accept: "text/event-stream" } });
      if (answer.body) {
        told.state(true);
        pause = 1000;
        for await (const { event, data } of messages(answer.body)) {
          if (event === "queue") told.changed(JSON.parse(data).counts);
        }
      }
    } catch {
      // Told below, and tried again: whatever it was may pass.
    }
    told.state(false);
    await new Promise((done) => {
      setTimeout(done, pause);
      told.back(() => done(null));
    });
    pause = Math.min(2 * pause, 30_000);
  }
}

/**
 * The messages of a text/event-stream.
 * @param {ReadableStream<BufferSource>} body
 */
async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const parts = held.split("\n\n");
    held = parts.pop() ?? "";
    for (const part of parts) {
      const fields = part
        .split("\n")
        .map((line) => /** @type {[string, string]} */ (/^(\w+): ?(.*)$/.exec(line)?.slice(1) ?? ["", ""]));
      const data = fields.filter(([name]) => name === "data").map(([, text]) => text);
      if (data.length)
        yield { event: fields.find(([name]) => name === "event")?.[1] ?? "message", data: data.join("\n") };
    }
  }
}
