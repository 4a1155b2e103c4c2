"use strict";

/* Redoc fetches its maker's logo from another host; a page of this service asks no host but its own. */
const image = HTMLImageElement.prototype;
const { setAttribute } = image;
const source = Object.getOwnPropertyDescriptor(image, "src");
const isOurs = (url) => new URL(url, location.href).origin === location.origin;

image.setAttribute = function (name, value) {
  if (name !== "src" || isOurs(value)) {
    setAttribute.call(this, name, value);
  }
};
Object.defineProperty(image, "src", {
  ...source,
  set(value) {
    if (isOurs(value)) {
      source.set.call(this, value);
    }
  },
});
