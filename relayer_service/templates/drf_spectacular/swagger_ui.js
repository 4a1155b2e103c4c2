"use strict";

{# Keeps the token for the lifetime of the tab, across reloads, but not in other tabs or on disk. #}
const KEPT = "authorized";

const keepAuthorization = () => ({
  statePlugins: {
    auth: {
      wrapActions: {
        persistAuthorizationIfNeeded: (original, system) => () =>
          sessionStorage.setItem(KEPT, JSON.stringify(system.authSelectors.authorized())),
      },
    },
  },
});

{# Screen readers do not announce a link inside a button; the hash of an operation works without it. One server needs no choice. #}
const accessible = ({ React }) => ({
  components: {
    DeepLink: ({ text }) => React.createElement("span", null, text),
    ServersContainer: () => null,
  },
});

const ui = SwaggerUIBundle({
  url: "{{ schema_url|escapejs }}",
  dom_id: "#swagger-ui",
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [keepAuthorization, accessible],
  layout: "BaseLayout",
  onComplete: () => {
    const kept = sessionStorage.getItem(KEPT);
    if (kept) {
      ui.authActions.restoreAuthorization({authorized: JSON.parse(kept)});
    }
  },
  ...{{ settings|safe }},
});
