"use strict";

/* A button with data-copy="#id" copies the text of that element. */
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) {
    return;
  }
  const source = document.querySelector(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.querySelector("[data-copy-label]").textContent = "Copied";
  } catch {
    // Browsers give the clipboard to HTTPS and loopback only: select the text, to be copied by hand.
    getSelection().selectAllChildren(source);
  }
});
