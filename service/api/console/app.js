/** The console's entry point: views, the reviewer, the state of the connection, and messages of the service. */

import { AuditView } from "./admin/audit.js";
import { DeadLettersView } from "./admin/dead_letters.js";
import { ExportView } from "./admin/export.js";
import { ModelsView } from "./admin/models.js";
import { SettingsView } from "./admin/settings.js";
import { WebhooksView } from "./admin/webhooks.js";
import { Api, ApiError, followEvents, hasKey, UnreachableError } from "./api.js";
import { Caller } from "./caller.js";
import { askKey, askReviewer, showHelp } from "./dialogs.js";
import { clearToasts, getById, showToast } from "./dom.js";
import { KEY_HELP, listenToKeys } from "./keys.js";
import { MineView } from "./mine/mine.js";
import { OverviewView } from "./overview/overview.js";
import { QueueView } from "./queue/queue.js";
import { formatCount, pluralize } from "./text.js";

const UPDATE_DELAY_MS = 250;
const UNREACHABLE_TEXT = "The service does not answer. The data shown may be out of date. The console keeps retrying.";

const api = new Api(askKey);
const caller = new Caller(api);
const context = {
  getReviewer: () => caller.reviewer,
  mayWrite: () => caller.may("decide"),
  may: (/** @type {string} */ action) => caller.may(action),
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
const mine = new MineView(api, { showError, getOwnName: () => (isAnnotator() ? (caller.me.name ?? "") : "") });
/** @typedef {{ element: HTMLElement, show: (query: URLSearchParams) => unknown, hide: () => void }} View */
/** @type {Record<string, View>} */
const views = {
  queue,
  overview,
  mine,
  models: new ModelsView(api, context),
  settings: new SettingsView(api, context),
  letters: new DeadLettersView(api, context),
  export: new ExportView(api, context),
  webhooks: new WebhooksView(api, context),
  audit: new AuditView(api, context),
};
/** @type {Record<string, string>} */
const TITLES = {
  queue: "review",
  overview: "overview",
  mine: "annotations",
  models: "models",
  settings: "settings",
  letters: "dead letters",
  export: "export",
  webhooks: "webhooks",
  audit: "audit trail",
};
/** The action that a caller must be allowed to see the view. @type {Record<string, string>} */
const REQUIRED_ACTIONS = {
  models: "change_settings",
  settings: "change_settings",
  letters: "read_dead_letters",
  export: "export",
  webhooks: "manage_webhooks",
  audit: "read_audit",
};
/** @type {View | null} */
let currentView = null;

function route() {
  const [, name = "queue", query = ""] = /^#\/(\w+)(?:\?(.*))?$/.exec(location.hash) ?? [];
  const isNameless = name === "mine" && !new URLSearchParams(query).get("annotator");
  const view = isAnnotator() ? mine : ((isNameless ? null : views[name]) ?? queue);
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
  const shown = Object.keys(views).find((each) => views[each] === view) ?? "queue";
  document.title = `labelwatch ${TITLES[shown]}`;
  view.show(new URLSearchParams(query));
}

/** Whether the caller is an annotator, who sees nothing but their own annotations. */
function isAnnotator() {
  return caller.me.role === "annotator";
}

function showName() {
  const button = getById("reviewer");
  const { reviewer, isNamed } = caller;
  button.hidden = isNamed && !reviewer;
  button.textContent = reviewer || "Your name?";
  const change = isNamed ? (hasKey() ? "; use another key" : "") : "; change the name";
  button.setAttribute(
    "aria-label",
    reviewer ? `${isNamed ? "Signed in" : "Reviewing"} as ${reviewer}${change}` : "Enter your name",
  );
  button.title = isNamed ? `Role: ${caller.me.role}` : "";
}

async function changeName() {
  if (!caller.isNamed) {
    await context.askReviewer();
    if (currentView === queue) await queue.draw();
  } else if (hasKey()) await caller.changeKey();
}

/** @param {unknown} error */
function showError(error) {
  if (error instanceof UnreachableError) setBanner(UNREACHABLE_TEXT);
  else if (error instanceof ApiError && error.status === 503)
    setBanner(`The service is not available: ${error.message}`);
  else if (error instanceof ApiError && error.status === 403) {
    showToast(error.message, { wrong: true });
    checkCaller(); // the role of the key may have changed
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

/** Asks who the caller is. If they may not review, a banner says so. */
async function checkCaller() {
  try {
    await caller.load();
  } catch (error) {
    showError(error);
  }
  const limits = caller.renderLimits();
  const element = getById("read-only");
  element.hidden = limits.length === 0;
  element.replaceChildren(...limits);
  showName();
  showViews();
}

let isStarted = false;
let isFollowing = false;
/** Whether the views were shown to an annotator; null: not yet. @type {boolean | null} */
let startedAs = null;

/** Shows the views to a caller who may read them, and hides them from others. */
function showViews() {
  const mayRead = caller.may("read");
  for (const each of ["queue", "overview", ...Object.keys(REQUIRED_ACTIONS)])
    getById(`to-${each}`).hidden = !caller.may(REQUIRED_ACTIONS[each] ?? "read");
  getById("to-mine").hidden = !isAnnotator();
  if ((mayRead || isAnnotator()) && startedAs !== isAnnotator()) {
    isStarted = true;
    startedAs = isAnnotator();
    route();
  } else if (isStarted && mayRead) queue.redraw();
  if (mayRead && !isFollowing) {
    isFollowing = true;
    followUpdates();
  }
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
  getById("reviewer").addEventListener("click", changeName);
  getById("skip").addEventListener("click", () => getById("main").focus());
  getById("help").addEventListener("click", () => showHelp(KEY_HELP));
  listenToKeys((key) => {
    if (key === "?") showHelp(KEY_HELP);
    else return currentView === queue && queue.handleKey(key);
    return true;
  });
  window.addEventListener("hashchange", () => isStarted && route());
  api.onResponse = () => {
    setBanner("");
    reconnect();
    queue.decisions.outbox.retry();
  };
  await checkCaller(); // asks for a key, if the service needs one, before any other request
  api.onKeyChange = checkCaller;
  if (!caller.reviewer && caller.may("decide")) await changeName();
}

start().catch(showError);
