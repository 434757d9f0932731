// Line icons, drawn here so that no file is loaded; each has its meaning as text beside it.

const SVG = "http://www.w3.org/2000/svg";
const PATHS = {
  request: "M4 12h14M12 6l6 6-6 6",
  record: "M5 6c0-1.7 3.1-3 7-3s7 1.3 7 3-3.1 3-7 3-7-1.3-7-3zm0 0v12c0 1.7 3.1 3 7 3s7-1.3 7-3V6M5 12c0 1.7 3.1 3 7 3s7-1.3 7-3",
  delivery: "M4 13l3-8h10l3 8v6H4zM4 13h5l1.5 2.5h3L15 13h5",
  published: "M12 11v2M8.5 8.5a5 5 0 0 0 0 7M15.5 8.5a5 5 0 0 1 0 7M5.5 5.5a9.2 9.2 0 0 0 0 13M18.5 5.5a9.2 9.2 0 0 1 0 13",
  copied: "M9 9h11v11H9zM6 15H4V4h11v2",
  effect: "M5 12.5l4.5 4.5L19 7.5",
  failed: "M6 6l12 12M18 6L6 18",
  parked: "M9 20V4h5a4.5 4.5 0 0 1 0 9H9",
  chaos: "M13 3L5 14h6l-1 7 8-11h-6z",
  process: "M12 3v8M7 6a8 8 0 1 0 10 0",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", PATHS[name] ?? PATHS.process);
  svg.append(path);
  return svg;
}
