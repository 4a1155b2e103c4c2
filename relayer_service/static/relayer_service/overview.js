"use strict";

/* The overview refreshes itself: it fetches the same page and replaces the parts that have changed. */

const REFRESH_SECONDS = 30;

let refreshedAt = Date.now();
let timer;

function showStatus(text) {
  const status = document.querySelector("#overview [data-refresh]");
  status.hidden = !text;
  status.textContent = text;
}

/* A user who selects text is reading or copying it. */
function hasSelection(overview) {
  const selection = getSelection();
  return !selection.isCollapsed && overview.contains(selection.anchorNode);
}

/* The tokens of forms differ in every response, and all of them are valid. */
function keepTokens(old, fresh) {
  const value = old.querySelector("[name=csrfmiddlewaretoken]")?.value;
  for (const token of value ? fresh.querySelectorAll("[name=csrfmiddlewaretoken]") : []) {
    token.setAttribute("value", value);
  }
}

function replacePart(old, fresh) {
  keepTokens(old, fresh);
  // Somebody reads what is open, or writes a note.
  if (old.innerHTML === fresh.innerHTML || old.querySelector("details[open]")) {
    return;
  }
  const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  old.replaceChildren(...fresh.childNodes);
  if (focused) {
    old.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }
}

function redraw(canvas, fresh) {
  const chart = Chart.getChart(canvas);
  if (!chart || canvas.dataset.value === fresh.dataset.value) {
    return;
  }
  canvas.dataset.value = fresh.dataset.value;
  const { labels, datasets } = JSON.parse(fresh.dataset.value);
  chart.data.labels = labels;
  datasets.forEach((dataset, index) => {
    chart.data.datasets[index].data = dataset.data;
  });
  chart.update("none");
}

function replaceParts(overview, fresh) {
  for (const [selector, replace] of [["[data-part]", replacePart], ["canvas.chart", redraw]]) {
    const [old, next] = [overview, fresh].map((each) => [...each.querySelectorAll(selector)]);
    const names = [old, next].map((parts) => parts.map((part) => part.dataset.part).join("\n"));
    if (names[0] !== names[1]) {
      // The cards are different: the permissions of the user have changed.
      location.reload();
      return;
    }
    old.forEach((part, index) => replace(part, next[index]));
  }
}

async function refresh() {
  const overview = document.getElementById("overview");
  if (document.hidden || hasSelection(overview)) {
    return;
  }
  refreshedAt = Date.now();
  let fresh;
  try {
    const response = await fetch(location.href, { cache: "no-store" });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    fresh = response.ok ? page.getElementById("overview") : null;
    if (!fresh && (response.ok || response.status === 403)) {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", refreshIfOld);
      showStatus("You are signed out. This page is no longer refreshed.");
      return;
    }
  } catch {
    fresh = null;
  }
  if (!fresh) {
    showStatus("The service is not responding. This page is out of date; retrying every 30 seconds.");
    return;
  }
  showStatus("");
  replaceParts(overview, fresh);
}

function refreshIfOld() {
  if (Date.now() - refreshedAt >= REFRESH_SECONDS * 1000) {
    refresh();
  }
}

timer = setInterval(refresh, REFRESH_SECONDS * 1000);
document.addEventListener("visibilitychange", refreshIfOld);
