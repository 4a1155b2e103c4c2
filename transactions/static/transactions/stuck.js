"use strict";

const STUCK_REFRESH_MS = 15_000;

/* Whether a user is reading or using a part of the panel: it is not replaced then. */
function isInUse(panel) {
  const selection = getSelection();
  const isSelected = !selection.isCollapsed && panel.contains(selection.anchorNode);
  return isSelected || panel.contains(document.activeElement) || panel.querySelector("details[open]") !== null;
}

/* An element with data-stuck-url shows the content of that URL, which has market prices, while the page is visible. */
async function refreshStuckPanel(panel) {
  if (document.visibilityState === "visible" && !isInUse(panel)) {
    try {
      const response = await fetch(panel.dataset.stuckUrl, { redirect: "error" });
      const html = await response.text();
      if (response.ok && !isInUse(panel)) {
        panel.innerHTML = html;
      }
    } catch {
      // It still shows what the page was loaded with.
    }
  }
  setTimeout(refreshStuckPanel, STUCK_REFRESH_MS, panel);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-stuck-url]").forEach(refreshStuckPanel);
});
