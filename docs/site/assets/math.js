// Renders the formulas that Markdown leaves between \( … \) and \[ … \].
const delimiters = [
  { left: "\\(", right: "\\)", display: false },
  { left: "\\[", right: "\\]", display: true },
];
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    renderMathInElement(element, { delimiters, throwOnError: false });
  }
});
