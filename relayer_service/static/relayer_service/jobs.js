"use strict";

const PROGRESS_MS = 2_000;

/* An element with data-progress-url shows the response of that URL, until the job is over. */
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
    // Remove the stop button.
    location.reload();
    return;
  }
  setTimeout(showProgress, PROGRESS_MS, panel);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-progress-url]").forEach((panel) => setTimeout(showProgress, PROGRESS_MS, panel));
});
