/** Calls the API, with a key if the service needs one, and follows its stream of events. */

const KEY_STORAGE_NAME = "labelwatch.key";
const POST_TIMEOUT_MS = 30_000;

/** @typedef {RequestInit & { headers?: Record<string, string>, timeoutMs?: number }} Options */

/** The service refused a request. The message is the problem's detail. */
export class ApiError extends Error {
  /** @param {number} status @param {{ detail?: string, title?: string, field?: string | null }} problem */
  constructor(status, problem) {
    super(problem.detail ?? problem.title ?? `the service answered ${status}`);
    this.status = status;
    this.field = problem.field ?? null;
  }
}

/** The service does not answer. */
export class UnreachableError extends Error {}

export class Api {
  /**
   * @param {(error: string | null) => Promise<string>} askKey `error`: what is wrong with the key in use
   */
  constructor(askKey) {
    this.askKey = askKey;
    /** @type {Promise<void> | null} */
    this.keyPrompt = null;
    /** Called after each successful response. */
    this.onResponse = () => {};
    /** Called after the key has changed. */
    this.onKeyChange = () => {};
  }

  /**
   * @param {string} path
   * @param {Record<string, unknown>} [query] empty values are left out
   * @returns {Promise<any>}
   */
  get(path, query = {}) {
    return this.call(path + toQueryString(query));
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
      timeoutMs: POST_TIMEOUT_MS,
    });
  }

  /**
   * Sends DELETE. The request completes even if the page is closed meanwhile.
   * @param {string} path
   * @param {Record<string, unknown>} query
   */
  remove(path, query) {
    return this.call(path + toQueryString(query), { method: "DELETE", keepalive: true });
  }

  /**
   * @param {string} path
   * @param {Options} [options]
   * @returns {Promise<any>}
   */
  async call(path, options = {}) {
    const response = await this.fetch(path, options);
    return response.json();
  }

  /**
   * @param {string} path
   * @param {Options} [options]
   * @returns {Promise<Response>}
   */
  async fetch(path, { timeoutMs, ...options } = {}) {
    for (;;) {
      await this.keyPrompt;
      const key = sessionStorage.getItem(KEY_STORAGE_NAME);
      const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
      let response;
      try {
        response = await fetch(path, {
          ...options,
          headers,
          cache: "no-store",
          ...(timeoutMs ? { signal: AbortSignal.timeout(timeoutMs) } : {}),
        });
      } catch (error) {
        if (error instanceof DOMException && error.name === "AbortError") throw error;
        throw new UnreachableError("the service does not answer");
      }
      if (response.ok) {
        this.onResponse();
        return response;
      }
      const problem = await response.json().catch(() => ({}));
      if (response.status !== 401) throw new ApiError(response.status, problem);
      // Several requests may be refused at once: only the first asks for a key, the others retry with it.
      if (key === sessionStorage.getItem(KEY_STORAGE_NAME)) await this.requestKey(key ? problem.detail : null);
    }
  }

  /** @param {string | null} error */
  requestKey(error) {
    this.keyPrompt ??= this.askKey(error)
      .then((key) => this.setKey(key))
      .finally(() => {
        this.keyPrompt = null;
      });
    return this.keyPrompt;
  }

  /** @param {string} key */
  setKey(key) {
    sessionStorage.setItem(KEY_STORAGE_NAME, key);
    this.onKeyChange();
  }
}

/** Whether the console uses a key: then commands that call the API need one too. */
export const hasKey = () => sessionStorage.getItem(KEY_STORAGE_NAME) !== null;

/** @param {Record<string, unknown>} query */
function toQueryString(query) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") parts.set(name, String(value));
  }
  return parts.size ? `?${parts}` : "";
}

/**
 * Follows the event stream and reconnects when it ends. `EventSource` can't send a key, so the stream is read with
 * fetch.
 * @param {Api} api
 * @param {{ onQueueChange: (counts: Record<string, number>) => void, onConnectionChange: (live: boolean) => void,
 *   onRetryPlanned: (retryNow: () => void) => void }} listeners
 *   `onRetryPlanned` gets a function that ends the pause before the next try
 */
export async function followEvents(api, listeners) {
  let pauseMs = 1000;
  for (;;) {
    try {
      const response = await api.fetch("v1/events", { headers: { Accept: "text/event-stream" } });
      if (response.body) {
        listeners.onConnectionChange(true);
        pauseMs = 1000;
        for await (const { event, data } of readEvents(response.body)) {
          if (event === "queue") listeners.onQueueChange(JSON.parse(data).counts);
        }
      }
    } catch {
      // Reported below as a lost connection, then retried.
    }
    listeners.onConnectionChange(false);
    await new Promise((resolve) => {
      setTimeout(resolve, pauseMs);
      listeners.onRetryPlanned(() => resolve(null));
    });
    pauseMs = Math.min(2 * pauseMs, 30_000);
  }
}

/**
 * Reads the events of a text/event-stream.
 * @param {ReadableStream<BufferSource>} body
 */
async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    const parts = buffer.split("\n\n");
    buffer = parts.pop() ?? "";
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
