/** How datasets spell their labels: asked once each. */

import { Scheme } from "./labels.js";

/** @import { Api } from "./api.js" */
/** @import { Palette } from "./labels.js" */

export class Schemes {
  /** @param {Api} api @param {Palette} palette gets a dataset's types in their own order, so that colours stay */
  constructor(api, palette) {
    this.api = api;
    this.palette = palette;
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
      const [settings, model] = await Promise.all([this.api.get(`v1/datasets/${encodeURIComponent(dataset)}`), this.api.get("v1/model")]);
      const scheme = Scheme.of(settings, model);
      for (const type of scheme.own?.types ?? []) this.palette.css(type);
      return scheme;
    } catch {
      this.known.delete(dataset); // asked again with the next item
      return new Scheme("iob2");
    }
  }
}
