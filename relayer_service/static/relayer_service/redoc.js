"use strict";

/* Redoc fetches its vendor's logo from another host; pages of this service only call their own. */
const image = HTMLImageElement.prototype;
const { setAttribute } = image;
const source = Object.getOwnPropertyDescriptor(image, "src");
const isSameOrigin = (url) => new URL(url, location.href).origin === location.origin;

image.setAttribute = function (name, value) {
  if (name !== "src" || isSameOrigin(value)) {
    setAttribute.call(this, name, value);
  }
};
Object.defineProperty(image, "src", {
  ...source,
  set(value) {
    if (isSameOrigin(value)) {
      source.set.call(this, value);
    }
  },
});

const DARK = {
  colors: {
    primary: { main: "#8ab8ff" },
    text: { primary: "#e4e6e6", secondary: "#b7bcbf" },
    border: { dark: "#4d5562", light: "#3b4151" },
    error: { main: "#ff8a80" },
    responses: {
      success: { color: "#7ee2a8", backgroundColor: "#1f3329", tabTextColor: "#7ee2a8" },
      error: { color: "#ff8a80", backgroundColor: "#3b2423", tabTextColor: "#ff8a80" },
      info: { color: "#8ab8ff", backgroundColor: "#20304a", tabTextColor: "#8ab8ff" },
    },
  },
  schema: { nestedBackground: "#23282b", typeNameColor: "#b7bcbf", typeTitleColor: "#b7bcbf", requireLabelColor: "#ff8a80" },
  typography: { code: { color: "#ff9d9d", backgroundColor: "#2b3033" } },
  sidebar: { backgroundColor: "#23282b", textColor: "#e4e6e6" },
  rightPanel: { backgroundColor: "#111415" },
  codeBlock: { backgroundColor: "#080a0b" },
};
const redoc = document.querySelector("redoc");
if (isDark()) {
  redoc.setAttribute("theme", JSON.stringify(DARK));
}
/* Its colours are set once. */
system.addEventListener("change", () => location.reload());
