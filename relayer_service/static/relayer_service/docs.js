"use strict";

/* Follows the theme that was chosen in the admin, or else the system's. */
const system = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = JSON.parse(localStorage.getItem("adminTheme") ?? '"auto"');
  return chosen === "dark" || (chosen === "auto" && system.matches);
}

function applyTheme() {
  document.documentElement.classList.toggle("dark-mode", isDark());
}

applyTheme();
system.addEventListener("change", applyTheme);
addEventListener("storage", applyTheme);

/* Names fields that have none, and lets a keyboard reach what scrolls. */
new MutationObserver(() => {
  for (const field of document.querySelectorAll("main select:not([aria-label]), main textarea:not([aria-label])")) {
    const name = field.closest("tr[data-param-name]")?.dataset.paramName;
    field.setAttribute("aria-label", name ?? (field.matches("textarea") ? "Request body" : "Choice"));
  }
  for (const example of document.querySelectorAll("main pre:not([tabindex])")) {
    if (example.scrollWidth > example.clientWidth || example.scrollHeight > example.clientHeight) {
      example.tabIndex = 0;
    }
  }
}).observe(document.documentElement, { childList: true, subtree: true });
