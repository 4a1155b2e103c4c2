"use strict";

/* A list refreshes itself: it fetches its page and replaces the rows, the tabs and the number of rows. */

const LIST_REFRESH_MS = 30_000;
const LIST_PARTS = ["#changelist-form", "[data-total]"];

let listRefreshedAt = Date.now();
let isListRefreshing = false;

/* Whether rows are selected, or a user reads, copies or uses a part of them: they are not replaced then. */
function isListInUse(form) {
  const selection = getSelection();
  const isSelected = !selection.isCollapsed && form.contains(selection.anchorNode);
  return isSelected || form.contains(document.activeElement) || form.querySelector(".action-select:checked") !== null;
}

function showListFault(text) {
  const status = document.querySelector("[data-list-status]");
  status.hidden = !text;
  status.textContent = text;
}

function replaceList(fresh) {
  for (const selector of LIST_PARTS) {
    const [old, next] = [document, fresh].map((page) => page.querySelector(selector));
    if (old && next) {
      old.replaceChildren(...next.childNodes);
    }
  }
  // One by one, as the theme moves some of them to a menu.
  for (const tab of document.querySelectorAll("#tabs-wrapper a")) {
    const next = fresh.querySelector(`#tabs-wrapper a[href="${CSS.escape(tab.getAttribute("href"))}"]`);
    tab.replaceChildren(...(next?.childNodes ?? tab.childNodes));
  }
  // The theme counts the rows that it finds as selected.
  const parent = document.querySelector(".result-list-wrapper");
  const boxes = parent.querySelectorAll("tr input.action-select");
  if (boxes.length && window.Actions) {
    Actions(boxes, { parent });
  }
}

async function refreshList() {
  const form = document.getElementById("changelist-form");
  if (!form || document.hidden || isListRefreshing || isListInUse(form)) {
    return;
  }
  isListRefreshing = true;
  listRefreshedAt = Date.now();
  try {
    const response = await fetch(location.href, { cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    if (!response.ok || !fresh.getElementById("changelist-form")) {
      throw new Error(response.statusText);
    }
    showListFault("");
    if (!isListInUse(form)) {
      replaceList(fresh);
    }
  } catch {
    showListFault("This list is out of date: you are signed out, or the service is not responding.");
  } finally {
    isListRefreshing = false;
  }
}

setInterval(refreshList, LIST_REFRESH_MS);
document.addEventListener("visibilitychange", () => {
  if (Date.now() - listRefreshedAt >= LIST_REFRESH_MS) {
    refreshList();
  }
});
