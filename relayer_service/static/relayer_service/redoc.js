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
