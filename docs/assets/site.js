// The theme gives its dialog no name for screen readers, and keyboards cannot scroll its wide tables.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
addEventListener("load", () => {
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap")) wide.tabIndex = 0;
});

// Draws the diagrams of a page. Their library has three megabytes, so only a page with diagrams loads it.
const diagrams = document.querySelectorAll("div.diagram");
if (diagrams.length > 0) {
  const library = document.createElement("script");
  library.src = new URL("mermaid.js", document.currentScript.src).href;
  library.onload = () => {
    const isDark = document.body.dataset.mdColorScheme === "slate";
    window.mermaid.initialize({ startOnLoad: false, theme: isDark ? "dark" : "default", themeVariables: isDark ? { edgeLabelBackground: "#444" } : {} });
    window.mermaid.run({ nodes: diagrams });
  };
  document.head.append(library);
}
