"use strict";

const PROGRESS_MS = 2_000;

/* An element with data-progress-url shows the response of that URL, until it is over. */
async function showProgress(panel, before) {
  let html = before;
  try {
    const response = await fetch(panel.dataset.progressUrl, { redirect: "error" });
    html = response.ok ? await response.text() : before;
    // What has not changed keeps its focus.
    if (html !== before) {
      panel.innerHTML = html;
    }
  } catch {
    // The next request may succeed.
  }
  if (panel.querySelector("[data-over]")) {
    // The buttons of the page may have changed, unless it is one that is shown once.
    if (!("progressStay" in panel.dataset)) {
      location.reload();
    }
    return;
  }
  setTimeout(showProgress, PROGRESS_MS, panel, html);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-progress-url]").forEach((panel) => setTimeout(showProgress, PROGRESS_MS, panel));
});
