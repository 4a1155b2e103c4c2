"use strict";

const REFRESH_MS = 15_000;

/* An element with data-status-url shows what that address gives, anew every so often while somebody looks. */
async function showStatus(panel) {
  if (document.visibilityState === "visible") {
    try {
      const response = await fetch(panel.dataset.statusUrl, { redirect: "error" });
      if (!response.ok) {
        throw new Error(response.statusText);
      }
      panel.innerHTML = await response.text();
    } catch {
      panel.textContent = "The status cannot be read at the moment.";
    }
  }
  setTimeout(showStatus, REFRESH_MS, panel);
}

/* A button with data-add-row adds a row from the template to the rows around it. */
function addRow(event) {
  const button = event.target.closest("[data-add-row]");
  if (!button) {
    return;
  }
  const rows = button.closest("[data-rows]");
  const total = rows.querySelector("[name$=-TOTAL_FORMS]");
  const html = rows.querySelector("template").innerHTML.replaceAll("__prefix__", total.value);
  const list = rows.querySelector("[data-rows-list]");
  list.insertAdjacentHTML("beforeend", html);
  list.lastElementChild.querySelector("input:not([type=hidden])").focus();
  total.value = Number(total.value) + 1;
}

document.addEventListener("click", addRow);
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-status-url]").forEach(showStatus);
});
