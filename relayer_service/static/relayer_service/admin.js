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

/* What Django's widgets leave without a name: a list to choose from has that of its label, a tooltip is a picture. */
const nameWidgets = () => {
  for (const select of document.querySelectorAll("select.select2-hidden-accessible")) {
    const label = select.labels[0]?.textContent.trim() || select.getAttribute("aria-label");
    const shown = select.nextElementSibling?.querySelectorAll("[role=combobox], [role=textbox]") || [];
    for (const element of label ? shown : []) {
      element.removeAttribute("aria-labelledby");
      element.setAttribute("aria-label", label);
    }
  }
  for (const tooltip of document.querySelectorAll(".help-tooltip[aria-label]:not([role])")) {
    tooltip.setAttribute("role", "img");
  }
};
// After the handlers of the same event that make them.
addEventListener("load", () => setTimeout(nameWidgets));
document.addEventListener("formset:added", () => setTimeout(nameWidgets));

/* Focus a field, or the first invalid one in an element, also where it is folded or hidden behind its widget. */
const focusField = (element) => {
  const field = element.querySelector("[aria-invalid=true]") || element;
  for (let fold = field.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    fold.open = true;
  }
  const widget = field.matches(".select2-hidden-accessible") && field.nextElementSibling;
  const shown = (widget && widget.querySelector("[role=combobox]")) || field;
  shown.focus();
  shown.scrollIntoView({ block: "center" });
};
/* After a save that failed, the first invalid field has the focus; the links of the summary lead to each. */
addEventListener("load", () =>
  setTimeout(() => {
    const found = document.querySelector("main form [aria-invalid=true]") || document.querySelector("[data-form-errors]");
    if (found) {
      focusField(found);
    }
  }),
);
document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-form-errors] a");
  const field = link && document.getElementById(link.hash.slice(1));
  if (field) {
    event.preventDefault();
    focusField(field);
  }
});
