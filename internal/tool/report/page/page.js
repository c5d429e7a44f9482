"use strict";
// Without this script, everything is shown. The filter is in the address, so that links can be shared.
const form = document.getElementById("filter");
const findings = [...document.querySelectorAll(".finding")].map((element) => ({
  element, text: (element.textContent + " " + element.closest(".object").querySelector("h2").textContent).toLowerCase(),
}));

function apply() {
  const chosen = new FormData(form);
  const words = String(chosen.get("q")).toLowerCase().split(/\s+/).filter(Boolean);
  const severities = chosen.getAll("severity");
  const id = chosen.get("id");
  let shown = 0;
  for (const { element, text } of findings) {
    const fits = severities.includes(element.dataset.severity) && (!id || element.dataset.id === id) && words.every((word) => text.includes(word));
    element.hidden = !fits;
    if (fits) shown++;
  }
  for (const object of document.querySelectorAll(".object")) {
    const own = [...object.querySelectorAll(".finding")];
    object.hidden = own.length > 0 && own.every((element) => element.hidden);
  }
  document.getElementById("shown").textContent = shown + " of " + findings.length + " shown";
}

// read sets the filter to what the address says.
function read() {
  if (!location.hash.startsWith("#filter?")) return;
  const saved = new URLSearchParams(location.hash.slice(8));
  form.elements.q.value = saved.get("q") || "";
  form.elements.id.value = saved.get("id") || "";
  if (saved.has("severity")) {
    for (const box of form.querySelectorAll("[name=severity]")) box.checked = saved.getAll("severity").includes(box.value);
  }
}

if (form) {
  form.hidden = false;
  read();
  apply();
  form.addEventListener("input", () => {
    apply();
    history.replaceState(null, "", "#filter?" + new URLSearchParams(new FormData(form)));
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", () => { read(); apply(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT)$/.test(event.target.tagName)) {
      event.preventDefault();
      form.elements.q.focus();
    }
  });
}
