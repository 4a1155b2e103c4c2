"use strict";

const PROGRESS_MS = 2_000;

/* An element with data-progress-url shows the response of that URL, until it is over. */
async function showProgress(panel) {
  try {
    const response = await fetch(panel.dataset.progressUrl, { redirect: "error" });
    if (response.ok) {
      panel.innerHTML = await response.text();
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
  setTimeout(showProgress, PROGRESS_MS, panel);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-progress-url]").forEach((panel) => setTimeout(showProgress, PROGRESS_MS, panel));
});
