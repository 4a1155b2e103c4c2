"use strict";

const PROGRESS_MS = 2_000;

/* An element with data-progress-url shows what that address gives, until it says that the job is over. */
async function showProgress(panel) {
  try {
    const response = await fetch(panel.dataset.progressUrl, { redirect: "error" });
    if (response.ok) {
      panel.innerHTML = await response.text();
    }
  } catch {
    // The next one may arrive.
  }
  if (panel.querySelector("[data-over]")) {
    // The page has no longer anything to stop.
    location.reload();
    return;
  }
  setTimeout(showProgress, PROGRESS_MS, panel);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-progress-url]").forEach((panel) => setTimeout(showProgress, PROGRESS_MS, panel));
});
