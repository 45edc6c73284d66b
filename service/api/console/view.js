/** A view of the console: the page below the navigation, shown for a query of the address. */

/** @typedef {{ showError: (error: unknown) => void }} ViewContext */

/** @template {ViewContext} Context */
export class View {
  /** @param {Context} context */
  constructor(context) {
    this.context = context;
    this.isShown = false;
    this.query = new URLSearchParams();
  }

  /** @param {URLSearchParams} query */
  async show(query) {
    this.isShown = true;
    this.query = query;
    try {
      await this.load(query);
    } catch (error) {
      this.context.showError(error);
    }
  }

  hide() {
    this.isShown = false;
  }

  /** Reads from the service what the query asks for, and draws it. @param {URLSearchParams} _query @returns {Promise<void>} */
  async load(_query) {
    throw new Error("a view loads itself");
  }

  /** Whether an answer for this query still belongs on the page. @param {URLSearchParams} query */
  isCurrent(query) {
    return this.isShown && this.query === query;
  }
}
