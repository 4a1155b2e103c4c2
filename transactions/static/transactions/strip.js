"use strict";

const STRIP_REFRESH_MS = 15_000;

/* Whether a user is reading or using a part of the strip: it is not replaced then. */
function isInUse(strip) {
  const selection = getSelection();
  const isSelected = !selection.isCollapsed && strip.contains(selection.anchorNode);
  return isSelected || strip.contains(document.activeElement) || strip.querySelector("details[open]") !== null;
}

/* An element with data-strip-url shows the content of that URL, which has market prices, while the page is visible. */
async function refreshStrip(strip) {
  if (document.visibilityState === "visible" && !isInUse(strip)) {
    try {
      const response = await fetch(strip.dataset.stripUrl, { redirect: "error" });
      const html = await response.text();
      if (response.ok && !isInUse(strip)) {
        strip.innerHTML = html;
      }
    } catch {
      // It still shows what the page was loaded with.
    }
  }
  setTimeout(refreshStrip, STRIP_REFRESH_MS, strip);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-strip-url]").forEach(refreshStrip);
});
