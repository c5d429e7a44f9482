// Search in the browser: loads search.json at the first use and lists the sections that contain all words. For a word that no
// section contains, the nearest one is searched.
"use strict";
(() => {
  const root = document.documentElement.dataset.root;
  const form = document.querySelector(".search");
  const field = form.querySelector("input");
  const panel = form.querySelector(".results");
  const summary = panel.querySelector("p");
  const list = panel.querySelector("ol");
  const limit = 30;
  let sections, vocabulary;

  form.hidden = false;

  async function load() {
    const response = await fetch(root + "search.json");
    if (!response.ok) throw new Error(response.statusText);
    return (await response.json()).map((s) => ({
      ...s, page: s.p.toLowerCase(), heading: (s.h || s.p).toLowerCase(), text: s.t.toLowerCase(),
    }));
  }

  // Rates a section: 0 if a word is missing. Headings count more than text, the start of a word more than the middle.
  function rate(section, words) {
    let sum = 0;
    for (const word of words) {
      const rating = 5 * place(section.heading, word) + 2 * place(section.page, word) + place(section.text, word);
      if (rating === 0) return 0;
      sum += rating + (section.heading === word ? 20 : 0);
    }
    return section.page === "changelog" ? sum / 4 : sum;
  }

  // Returns 2 if a word of the text starts with word, 1 if it is somewhere else in it, and otherwise 0.
  function place(text, word) {
    const at = text.indexOf(word);
    if (at < 0) return 0;
    return at === 0 || text.includes(" " + word) || /[^\p{L}\p{N}]/u.test(text[at - 1]) ? 2 : 1;
  }

  // Returns an excerpt of the text around the first word, with all words marked.
  function excerpt(section, words) {
    const at = Math.max(0, ...words.slice(0, 1).map((word) => section.text.indexOf(word)));
    const begin = at < 60 ? 0 : section.t.lastIndexOf(" ", at - 40) + 1;
    let part = section.t.slice(begin, begin + 180);
    if (begin + 180 < section.t.length) part = part.slice(0, Math.max(part.lastIndexOf(" "), 120)) + " …";
    if (begin > 0) part = "… " + part;
    const pattern = new RegExp("(" + words.map((w) => w.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|") + ")", "giu");
    const element = document.createElement("span");
    part.split(pattern).forEach((piece, i) => {
      if (i % 2 === 0) return element.append(piece);
      const mark = document.createElement("mark");
      mark.textContent = piece;
      element.append(mark);
    });
    return element;
  }

  // Returns the words with those that no section contains replaced by the nearest ones.
  function corrected(all, words) {
    return words.map((word) => {
      if (all.some((s) => s.text.includes(word) || s.heading.includes(word) || s.page.includes(word))) return word;
      if (!vocabulary) {
        vocabulary = new Map();
        for (const s of all) {
          for (const known of new Set(`${s.page} ${s.heading} ${s.text}`.split(/[^\p{L}\p{N}]+/u))) {
            if (known.length > 3) vocabulary.set(known, (vocabulary.get(known) ?? 0) + 1);
          }
        }
      }
      return nearest(word, vocabulary) ?? word;
    });
  }

  function item(section, words) {
    const link = document.createElement("a");
    link.href = root + section.u;
    const heading = document.createElement("strong");
    heading.textContent = section.h || section.p;
    const page = document.createElement("small");
    page.textContent = section.h ? section.p : "";
    link.append(heading, " ", page, excerpt(section, words));
    const element = document.createElement("li");
    element.append(link);
    return element;
  }

  async function show() {
    const typed = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    panel.hidden = typed.length === 0;
    if (panel.hidden) return;
    try {
      sections ||= load();
      const all = await sections;
      if (typed.join(" ") !== field.value.toLowerCase().split(/\s+/).filter(Boolean).join(" ")) return;
      const words = corrected(all, typed);
      const found = all.map((section) => [rate(section, words), section]).filter(([rating]) => rating > 0);
      found.sort(([a], [b]) => b - a);
      summary.textContent = found.length === 0 ? "No results" :
        found.length > limit ? `${found.length} results, the best ${limit}:` :
        found.length === 1 ? "1 result" : `${found.length} results`;
      if (words.join(" ") !== typed.join(" ")) summary.textContent = `Nothing for “${typed.join(" ")}”. For “${words.join(" ")}”: ${summary.textContent}`;
      list.replaceChildren(...found.slice(0, limit).map(([, section]) => item(section, words)));
    } catch (error) {
      sections = undefined;
      summary.textContent = "Search is not available: " + error.message +
        (location.protocol === "file:" ? "; it requires a web server" : "");
      list.replaceChildren();
    }
  }

  function move(event, step) {
    const stops = [field, ...list.querySelectorAll("a")];
    const next = stops[stops.indexOf(document.activeElement) + step];
    if (next) next.focus();
    event.preventDefault();
  }

  field.addEventListener("input", show);
  field.addEventListener("focus", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("a")?.click();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") move(event, 1);
    if (event.key === "ArrowUp") move(event, -1);
    if (event.key === "Escape") { field.focus(); panel.hidden = true; }
  });
  list.addEventListener("click", (event) => { if (event.target.closest("a")) panel.hidden = true; });
  document.addEventListener("click", (event) => { if (!form.contains(event.target)) panel.hidden = true; });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
    event.preventDefault();
    field.focus();
  });
})();
