/** The labelling scheme of each dataset, requested once per dataset. */

import { Scheme } from "./labels.js";

/** @import { Api } from "../api.js" */

export class SchemeCache {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
    /** @type {Map<string, Promise<Scheme>>} */
    this.schemes = new Map();
  }

  /** @param {string} dataset */
  get(dataset) {
    const scheme = this.schemes.get(dataset) ?? this.load(dataset);
    this.schemes.set(dataset, scheme);
    return scheme;
  }

  /** @param {string} dataset */
  async load(dataset) {
    try {
      const [settings, model] = await Promise.all([
        this.api.get(`v1/datasets/${encodeURIComponent(dataset)}`),
        this.api.get("v1/model"),
      ]);
      return Scheme.fromSettings(settings, model);
    } catch {
      this.schemes.delete(dataset); // requested again with the next item
      return new Scheme("iob2");
    }
  }
}
