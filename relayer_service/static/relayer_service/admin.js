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
    // Browsers restrict the clipboard to HTTPS and loopback. Select the text, so that the user can copy it.
    getSelection().selectAllChildren(source);
  }
});

/* Details with data-focus-on-open focus their first field. The event does not bubble. */
document.addEventListener(
  "toggle",
  ({ target }) => {
    if (target.open && target.matches("[data-focus-on-open]")) {
      target.querySelector("input:not([type=hidden])").focus();
    }
  },
  true,
);

/* A button with data-add-row adds a row from the template to the rows around it. */
document.addEventListener("click", (event) => {
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
});

/* Add what Django's widgets lack for screen readers: the name of its label to a select, and a role to a tooltip. */
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
// After the handlers of the same event that create the widgets.
addEventListener("load", () => setTimeout(nameWidgets));
document.addEventListener("formset:added", () => setTimeout(nameWidgets));

/* The theme opens the filters of a list by a link without a target, which keyboards do not reach. */
addEventListener("load", () => {
  const open = document.querySelector("a[x-on\\:click='filterOpen = true']");
  open?.setAttribute("role", "button");
  open?.setAttribute("tabindex", "0");
  open?.querySelector("span").setAttribute("aria-hidden", "true");
  open?.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open.click();
      // After the theme has shown them.
      setTimeout(() => document.querySelector("#changelist-filter :is(input, select):not([type=hidden])")?.focus(), 100);
    }
  });
});

/* What the command palette finds. */
addEventListener("load", () => {
  const field = document.getElementById("search-input-command");
  field?.setAttribute("placeholder", "ID, name, address, hash, or key:value of metadata");
});

/* Open the tab of the page that has an element. */
const openTab = (element) => {
  const tab = element?.closest("[data-tab]")?.dataset.tab;
  document.querySelector(`#tabs-wrapper a[href="#${tab}"]`)?.click();
};
/* A link to a tab, or to a part of one, opens the tab, and so do Back and Forward. */
const openLinked = () => {
  const name = location.hash.slice(1) || "general";
  const target = document.getElementById(name);
  if (target?.closest("[data-tab]")) {
    openTab(target);
    if (target.matches("details")) {
      target.open = true;
    }
    setTimeout(() => setTimeout(() => target.scrollIntoView()));
  } else if (document.getElementById(`${name}-group`)?.dataset.tab) {
    Alpine.$data(document.body).activeTab = name;
  }
};
addEventListener("load", openLinked);
addEventListener("hashchange", openLinked);

/* Focus a field, or the first invalid one in an element, even if it is collapsed or hidden behind its widget. */
const focusField = (element) => {
  const field = element.querySelector("[aria-invalid=true]") || element;
  openTab(field);
  for (let fold = field.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    fold.open = true;
  }
  const widget = field.matches(".select2-hidden-accessible") && field.nextElementSibling;
  const shown = (widget && widget.querySelector("[role=combobox]")) || field;
  const focus = () => {
    shown.focus();
    shown.scrollIntoView({ block: "center" });
  };
  // After the timer with which the theme shows a tab.
  setTimeout(() => setTimeout(focus));
};
/* After a failed save, focus the first invalid field; the links of the summary focus theirs. */
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
