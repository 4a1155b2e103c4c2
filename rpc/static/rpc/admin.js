"use strict";

/* A choice with data-kind-fields shows the fields of the chosen kind and hides the others. */
function showFieldsOfKind(select) {
  const kinds = JSON.parse(select.dataset.kindFields);
  const shown = new Set(kinds[select.value] ?? []);
  const prefix = select.name.slice(0, -"kind".length);
  for (const name of new Set(Object.values(kinds).flat())) {
    const field = select.form.elements[prefix + name];
    field.closest(".field-line").hidden = !shown.has(name);
  }
}

/* A form with data-estimate shows its answer below itself, without leaving the page. */
async function showEstimate(event) {
  const form = event.target.closest("[data-estimate]");
  // The other buttons lead to pages of their own.
  if (!form || event.submitter?.hasAttribute("formaction")) {
    return;
  }
  event.preventDefault();
  const answer = form.parentElement.querySelector("[data-estimate-answer]");
  const button = form.querySelector("button[type=submit]");
  button.disabled = true;
  answer.textContent = "Querying the nodes …";
  try {
    const response = await fetch(form.action, {
      method: "POST",
      body: new FormData(form),
      headers: { "X-Requested-With": "fetch" },
      redirect: "error",
    });
    if (!response.ok) {
      throw new Error(response.statusText);
    }
    answer.innerHTML = await response.text();
  } catch {
    answer.textContent = "The estimate could not be loaded.";
  }
  button.disabled = false;
}

/* A button with data-sample fills in the fields of its form. */
function fillInSample(event) {
  const button = event.target.closest("[data-sample]");
  if (!button) {
    return;
  }
  for (const [name, value] of Object.entries(JSON.parse(button.dataset.sample))) {
    button.form.elements[`try-${name}`].value = value;
  }
}

document.addEventListener("submit", showEstimate);
document.addEventListener("click", fillInSample);
document.addEventListener("change", (event) => {
  if (event.target.matches("select[data-kind-fields]")) {
    showFieldsOfKind(event.target);
  }
});
for (const moment of ["DOMContentLoaded", "formset:added"]) {
  document.addEventListener(moment, () => {
    document.querySelectorAll("select[data-kind-fields]").forEach(showFieldsOfKind);
  });
}
