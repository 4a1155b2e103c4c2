"use strict";

/* The overview refreshes itself: the same page is fetched, and what is different in it takes the place of the old. */

const REFRESH_SECONDS = 30;

let refreshedAt = Date.now();
let timer;

function tell(text) {
  const place = document.querySelector("#overview [data-refresh]");
  place.hidden = !text;
  place.textContent = text;
}

/* Somebody who marks text is reading or copying it. */
function isBeingRead(overview) {
  const selection = getSelection();
  return !selection.isCollapsed && overview.contains(selection.anchorNode);
}

function replacePart(old, fresh) {
  if (old.innerHTML === fresh.innerHTML) {
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
  datasets.forEach((dataset, place) => {
    chart.data.datasets[place].data = dataset.data;
  });
  chart.update("none");
}

function replaceParts(overview, fresh) {
  for (const [selector, replace] of [["[data-part]", replacePart], ["canvas.chart", redraw]]) {
    const [old, next] = [overview, fresh].map((each) => [...each.querySelectorAll(selector)]);
    const names = [old, next].map((parts) => parts.map((part) => part.dataset.part).join("\n"));
    if (names[0] !== names[1]) {
      // Other cards than before: the user may see more now, or less.
      location.reload();
      return;
    }
    old.forEach((part, place) => replace(part, next[place]));
  }
}

async function refresh() {
  const overview = document.getElementById("overview");
  if (document.hidden || isBeingRead(overview)) {
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
      tell("You are signed out: what is shown is no longer refreshed.");
      return;
    }
  } catch {
    fresh = null;
  }
  if (!fresh) {
    tell("The service does not answer: what is shown is old. It is asked again every 30 seconds.");
    return;
  }
  tell("");
  replaceParts(overview, fresh);
}

function refreshIfOld() {
  if (Date.now() - refreshedAt >= REFRESH_SECONDS * 1000) {
    refresh();
  }
}

timer = setInterval(refresh, REFRESH_SECONDS * 1000);
document.addEventListener("visibilitychange", refreshIfOld);
