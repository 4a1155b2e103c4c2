"use strict";

const REFRESH_MS = 15_000;

/* An element with data-status-url shows the content of that URL, and refreshes it while the page is visible. */
async function showStatus(panel) {
  if (document.visibilityState === "visible") {
    try {
      const response = await fetch(panel.dataset.statusUrl, { redirect: "error" });
      if (!response.ok) {
        throw new Error(response.statusText);
      }
      panel.innerHTML = await response.text();
    } catch {
      panel.textContent = "The status is not available at the moment.";
    }
  }
  setTimeout(showStatus, REFRESH_MS, panel);
}

const MAX_ID_LENGTH = 255;

/* Return a name as an ID: letters without accents, and digits, separated by hyphens. */
function slug(name) {
  const plain = name.normalize("NFKD").replace(/\p{Mark}/gu, "").toLowerCase();
  return plain.replace(/[^a-z0-9]+/g, "-").slice(0, MAX_ID_LENGTH).replace(/^-+|-+$/g, "");
}

/* An input with data-slug-of follows the input with that ID until something is typed into it. */
function suggestId(input) {
  const source = document.getElementById(input.dataset.slugOf);
  const given = input.value;
  const follow = () => {
    input.value = slug(source.value) || given;
  };
  source.addEventListener("input", follow);
  input.addEventListener("input", () => source.removeEventListener("input", follow), { once: true });
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-status-url]").forEach(showStatus);
  document.querySelectorAll("[data-slug-of]").forEach(suggestId);
});
