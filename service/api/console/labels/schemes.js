/** The labelling scheme of each dataset, requested once per dataset. */

import { Scheme } from "./scheme.js";

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

  /** The schemes of several datasets by name. @param {string[]} datasets @returns {Promise<Record<string, Scheme>>} */
  async getAll(datasets) {
    const names = [...new Set(datasets)];
    const schemes = await Promise.all(names.map((name) => this.get(name)));
    return Object.fromEntries(names.map((name, index) => [name, schemes[index]]));
  }

  /** @param {string} dataset */
  async load(dataset) {
    try {
      const path = `v1/datasets/${encodeURIComponent(dataset)}`;
      const [settings, model, labelSet] = await Promise.all([
        this.api.get(path),
        this.api.get("v1/model"),
        this.api.get(`${path}/label-set`),
      ]);
      return Scheme.fromSettings(settings, model, labelSet.unused_types);
    } catch {
      this.schemes.delete(dataset); // requested again with the next item
      return new Scheme("iob2");
    }
  }
}
