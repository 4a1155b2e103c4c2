"use strict";

{# A token stays for as long as the tab does: over a reload, but in no other tab and not on the disk. #}
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

const ui = SwaggerUIBundle({
  url: "{{ schema_url|escapejs }}",
  dom_id: "#swagger-ui",
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [keepAuthorization],
  layout: "BaseLayout",
  onComplete: () => {
    const kept = sessionStorage.getItem(KEPT);
    if (kept) {
      ui.authActions.restoreAuthorization({authorized: JSON.parse(kept)});
    }
  },
  ...{{ settings|safe }},
});
