/** The console's entry point: views, the reviewer, the state of the connection, and messages of the service. */

import { Api, ApiError, followEvents, UnreachableError } from "./api.js";
import { askKey, askOtherKey, askReviewer, getReviewer, showHelp } from "./dialogs.js";
import { clearToasts, getById, h, showToast } from "./dom.js";
import { KEY_HELP, listenToKeys } from "./keys.js";
import { OverviewView } from "./overview/overview.js";
import { QueueView } from "./queue/queue.js";
import { formatCount, pluralize } from "./text.js";

const UPDATE_DELAY_MS = 250;
const UNREACHABLE_TEXT = "The service does not answer. The data shown may be out of date. The console keeps retrying.";

const api = new Api(askKey);
let mayWrite = true;
const context = {
  getReviewer,
  mayWrite: () => mayWrite,
  showUnsentCount,
  askReviewer: async () => {
    const name = await askReviewer();
    showName();
    return name;
  },
  showError,
};
const queue = new QueueView(api, context);
const overview = new OverviewView(api, context);
/** @type {Record<string, QueueView | OverviewView>} */
const views = { queue, overview };
/** @type {QueueView | OverviewView | null} */
let currentView = null;

function route() {
  const [, name = "queue", query = ""] = /^#\/(\w+)(?:\?(.*))?$/.exec(location.hash) ?? [];
  const view = views[name] ?? queue;
  if (view !== currentView) {
    currentView?.hide();
    currentView = view;
    getById("main").replaceChildren(view.element);
    clearToasts();
    scrollTo(0, 0);
  }
  for (const [viewName, candidate] of Object.entries(views)) {
    const link = getById(`to-${viewName}`);
    if (candidate === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `labelwatch ${view === overview ? "overview" : "review"}`;
  view.show(new URLSearchParams(query));
}

function showName() {
  const button = getById("reviewer");
  button.hidden = false;
  button.textContent = getReviewer() || "Your name?";
  button.setAttribute(
    "aria-label",
    getReviewer() ? `Reviewing as ${getReviewer()}; change the name` : "Enter your name",
  );
}

/** @param {unknown} error */
function showError(error) {
  if (error instanceof UnreachableError) setBanner(UNREACHABLE_TEXT);
  else if (error instanceof ApiError && error.status === 503)
    setBanner(`The service is not available: ${error.message}`);
  else if (error instanceof ApiError && error.status === 403) {
    showToast(error.message, { wrong: true });
    checkScope(); // the scope of the key may have changed to read
  } else if (error instanceof Error) showToast(error.message, { wrong: true });
  else throw error;
}

/** @param {string} text an empty text hides the banner */
function setBanner(text) {
  const element = getById("banner");
  element.textContent = text;
  element.hidden = !text;
}

/** Shows how many decisions are not sent yet. @param {number} number */
function showUnsentCount(number) {
  const element = getById("unsent");
  element.hidden = !number;
  element.textContent = number
    ? `${pluralize(number, "decision is", "decisions are")} not saved yet. ${number === 1 ? "It is" : "They are"} sent when the service answers. Leave this page open.`
    : "";
}

/** Reads the scope of the key. With a key that can only read, a banner says so. */
async function checkScope() {
  try {
    mayWrite = (await api.get("v1/model")).may_write !== false;
  } catch (error) {
    showError(error);
    return;
  }
  const element = getById("read-only");
  element.hidden = mayWrite;
  const changeKey = async () => {
    const key = await askOtherKey();
    if (key) api.setKey(key);
  };
  element.replaceChildren(
    ...(mayWrite
      ? []
      : [
          h("b", {}, "Read only. "),
          "Your key can read everything but can't save decisions. To review, use a key with the scope ",
          h("code", {}, "write"),
          ". ",
          h("button", { type: "button", class: "plain small", on: { click: changeKey } }, "Use another key"),
        ]),
  );
  queue.redraw();
}

let updateTimer = 0;
let wasLive = false;
let reconnect = () => {};

function followUpdates() {
  followEvents(api, {
    onQueueChange: (counts) => {
      const open = getById("open-count");
      open.hidden = false;
      open.textContent = formatCount(counts.open ?? 0);
      open.setAttribute("aria-label", `${formatCount(counts.open ?? 0)} open`);
      clearTimeout(updateTimer);
      updateTimer = setTimeout(() => {
        queue.onQueueChange(counts);
        overview.onQueueChange();
      }, UPDATE_DELAY_MS);
    },
    onConnectionChange: (isLive) => {
      const indicator = getById("live");
      indicator.classList.toggle("on", isLive);
      indicator.textContent = isLive ? "Live" : "Reconnecting";
      indicator.title = isLive ? "Changes appear automatically" : "Live updates resume automatically";
      if (isLive) setBanner("");
      else if (wasLive) setBanner(UNREACHABLE_TEXT);
      wasLive = isLive;
    },
    onRetryPlanned: (retryNow) => {
      reconnect = retryNow;
    },
  });
}

async function start() {
  getById("reviewer").addEventListener("click", async () => {
    await context.askReviewer();
    if (currentView === queue) await queue.draw();
  });
  getById("skip").addEventListener("click", () => getById("main").focus());
  getById("help").addEventListener("click", () => showHelp(KEY_HELP));
  listenToKeys((key) => {
    if (key === "?") showHelp(KEY_HELP);
    else return currentView === queue && queue.handleKey(key);
    return true;
  });
  window.addEventListener("hashchange", route);
  await checkScope(); // asks for a key, if the service needs one, before any other request
  api.onKeyChange = checkScope;
  api.onResponse = () => {
    setBanner("");
    reconnect();
    queue.decisions.outbox.retry();
  };
  if (!getReviewer() && mayWrite) await askReviewer();
  showName();
  route();
  followUpdates();
}

start().catch(showError);
