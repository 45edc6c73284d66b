/** The console: which view is shown, who is reviewing, and what the service says. */

import { Api, ApiError, listen, Unreachable } from "./api.js";
import { askKey, askName, askOtherKey, reviewer, showHelp } from "./dialogs.js";
import { at, clearToasts, h, toast } from "./dom.js";
import { HELP, listenToKeys } from "./keys.js";
import { OverviewView } from "./overview/overview.js";
import { QueueView } from "./queue/queue.js";
import { count, plural } from "./text.js";

const GATHERED = 250;
const AWAY = "The service does not answer. What you see may be old; it is tried again.";

const api = new Api(askKey);
let mayWrite = true;
const desk = {
  reviewer,
  mayWrite: () => mayWrite,
  unsent,
  askName: async () => {
    const name = await askName();
    showName();
    return name;
  },
  failed,
};
const queue = new QueueView(api, desk);
const overview = new OverviewView(api, desk);
/** @type {Record<string, QueueView | OverviewView>} */
const views = { queue, overview };
/** @type {QueueView | OverviewView | null} */
let shown = null;

function route() {
  const [, name = "queue", query = ""] = /^#\/(\w+)(?:\?(.*))?$/.exec(location.hash) ?? [];
  const view = views[name] ?? queue;
  if (view !== shown) {
    shown?.hide();
    shown = view;
    at("main").replaceChildren(view.element);
    clearToasts();
    scrollTo(0, 0);
  }
  for (const [which, one] of Object.entries(views)) {
    const link = at(`to-${which}`);
    if (one === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `labelwatch ${view === overview ? "overview" : "review"}`;
  view.show(new URLSearchParams(query));
}

function showName() {
  const button = at("who");
  button.hidden = false;
  button.textContent = reviewer() || "Your name?";
  button.setAttribute("aria-label", reviewer() ? `Reviewing as ${reviewer()}; change the name` : "Tell your name");
}

/** @param {unknown} error */
function failed(error) {
  if (error instanceof Unreachable) banner(AWAY);
  else if (error instanceof ApiError && error.status === 503)
    banner(`The service can't do this at the moment: ${error.message}`);
  else if (error instanceof ApiError && error.status === 403) {
    toast(error.message, { wrong: true });
    learnScope(); // the key may have been changed to one that only reads
  } else if (error instanceof Error) toast(error.message, { wrong: true });
  else throw error;
}

/** @param {string} text empty: nothing is wrong any more */
function banner(text) {
  const place = at("banner");
  place.textContent = text;
  place.hidden = !text;
}

/** @param {number} number of decisions that could not be sent yet */
function unsent(number) {
  const place = at("unsent");
  place.hidden = !number;
  place.textContent = number
    ? `${plural(number, "decision is", "decisions are")} not saved yet. ${number === 1 ? "It is" : "They are"} sent when the service answers; leave this page open.`
    : "";
}

/** Whether the key may decide: else that is told before somebody tries. */
async function learnScope() {
  try {
    mayWrite = (await api.get("v1/model")).may_write !== false;
  } catch (error) {
    failed(error);
    return;
  }
  const place = at("read-only");
  place.hidden = mayWrite;
  const change = async () => {
    const key = await askOtherKey();
    if (key) api.use(key);
  };
  place.replaceChildren(
    ...(mayWrite
      ? []
      : [
          h("b", {}, "Read only. "),
          "Your key may look at everything, but not decide: that needs one with the scope ",
          h("code", {}, "write"),
          ". ",
          h("button", { type: "button", class: "plain small", on: { click: change } }, "Use another key"),
        ]),
  );
  queue.redraw();
}

let gathering = 0;
let live = false;
let reconnect = () => {};

function followChanges() {
  listen(api, {
    changed: (counts) => {
      const open = at("open-count");
      open.hidden = false;
      open.textContent = count(counts.open ?? 0);
      open.setAttribute("aria-label", `${count(counts.open ?? 0)} open`);
      clearTimeout(gathering);
      gathering = setTimeout(() => {
        queue.changed(counts);
        overview.changed();
      }, GATHERED);
    },
    state: (now) => {
      const mark = at("live");
      mark.classList.toggle("on", now);
      mark.textContent = now ? "Live" : "Reconnecting";
      mark.title = now ? "Changes appear by themselves" : "Live updates come back by themselves";
      if (now) banner("");
      else if (live) banner(AWAY);
      live = now;
    },
    back: (again) => {
      reconnect = again;
    },
  });
}

async function start() {
  at("who").addEventListener("click", async () => {
    await desk.askName();
    if (shown === queue) await queue.draw();
  });
  at("skip").addEventListener("click", () => at("main").focus());
  at("help").addEventListener("click", () => showHelp(HELP));
  listenToKeys((key) => {
    if (key === "?") showHelp(HELP);
    else return shown === queue && queue.press(key);
    return true;
  });
  window.addEventListener("hashchange", route);
  await learnScope(); // where a key is needed it is asked for once, before anything else
  api.keyed = learnScope;
  api.answered = () => {
    banner("");
    reconnect();
    queue.decisions.outbox.again();
  };
  if (!reviewer() && mayWrite) await askName();
  showName();
  route();
  followChanges();
}

start().catch(failed);
