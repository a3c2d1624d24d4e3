// Renders the formulas that Markdown leaves between \( … \) and \[ … \].
const delimiters = [
  { left: "\\(", right: "\\)", display: false },
  { left: "\\[", right: "\\]", display: true },
];
const render = () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    renderMathInElement(element, { delimiters, throwOnError: false });
  }
};
if (document.readyState === "loading") {
  document.addEventListener("DOMContentLoaded", render);
} else {
  render();
}
