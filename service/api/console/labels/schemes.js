/** How datasets spell their labels: asked once each. */

import { Scheme } from "./labels.js";

/** @import { Api } from "../api.js" */

export class Schemes {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
    /** @type {Map<string, Promise<Scheme>>} */
    this.known = new Map();
  }

  /** @param {string} dataset */
  of(dataset) {
    const found = this.known.get(dataset) ?? this.read(dataset);
    this.known.set(dataset, found);
    return found;
  }

  /** @param {string} dataset */
  async read(dataset) {
    try {
      const [settings, model] = await Promise.all([
        this.api.get(`v1/datasets/${encodeURIComponent(dataset)}`),
        this.api.get("v1/model"),
      ]);
      return Scheme.of(settings, model);
    } catch {
      this.known.delete(dataset); // asked again with the next item
      return new Scheme("iob2");
    }
  }
}
