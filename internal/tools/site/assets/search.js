// Search in the pages: the index is a script, because a page opened from a file may load scripts and no data.
"use strict";
(() => {
  const root = new URL(".", document.currentScript.src);
  const [box, query, found, status, results] =
    ["search", "#query", "#found", "#status", "#results"].map((s) => document.querySelector(s));
  const limit = 20;
  let index; // a promise of the entries, from the first use on
  box.hidden = false;

  function load() {
    index ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL("search-index.js", root);
      script.onload = () => resolve(window.searchIndex.map((e) => ({...e, words: {
        page: e.page.toLowerCase(), heading: e.heading.toLowerCase(), text: e.text.toLowerCase()}})));
      script.onerror = reject;
      document.head.append(script);
    });
    return index;
  }

  // score is 0 unless every word is somewhere. Headings count more than text, whole words more than parts, and words
  // next to each other more than words apart.
  function score(entry, words) {
    let sum = 0;
    for (const word of words) {
      let best = 0;
      for (const [where, weight] of [["heading", 8], ["page", 4], ["text", 1]]) {
        const text = entry.words[where];
        const at = text.indexOf(word);
        if (at < 0) continue;
        const whole = ` ${text.replace(/[^\p{L}\p{N}-]+/gu, " ")} `.includes(` ${word} `);
        best += weight * (whole ? 2 : 1) + (where === "text" ? Math.min(3, text.split(word).length - 2) / 2 : 0);
      }
      if (best === 0) return 0;
      sum += best;
    }
    const phrase = words.join(" ");
    const together = entry.words.heading.includes(phrase) || entry.words.text.includes(phrase);
    return sum + (words.length > 1 && together ? 4 : 0);
  }

  // marked returns text as nodes, with the words marked.
  function marked(text, words) {
    const quoted = words.map((w) => w.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
    const pattern = new RegExp(`(${quoted.join("|")})`, "giu");
    return text.split(pattern).filter(Boolean).map((part) => {
      if (!words.includes(part.toLowerCase())) return part;
      const mark = document.createElement("mark");
      mark.textContent = part;
      return mark;
    });
  }

  function excerpt(entry, words) {
    const at = Math.max(0, Math.min(...words.map((w) => entry.words.text.indexOf(w)).filter((i) => i >= 0), 1e9));
    const from = at >= entry.text.length || at < 60 ? 0 : entry.text.lastIndexOf(" ", at - 40) + 1;
    const end = entry.text.length > from + 160 ? " …" : "";
    return (from > 0 ? "… " : "") + entry.text.slice(from, from + 160).replace(/\s\S*$/, end ? "" : "$&") + end;
  }

  function row(entry, words) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    const title = document.createElement("b");
    const text = document.createElement("small");
    link.href = new URL(entry.url, root);
    title.append(...marked(entry.heading, words));
    text.append(...marked(excerpt(entry, words), words));
    link.append(title, entry.heading === entry.page ? "" : ` – ${entry.page}`, text);
    item.append(link);
    return item;
  }

  async function show() {
    const words = [...new Set(query.value.toLowerCase().split(/\s+/).filter(Boolean))];
    if (words.length === 0) return close();
    let entries;
    try {
      entries = await load();
    } catch {
      status.textContent = "The search index cannot be loaded.";
      found.hidden = false;
      return;
    }
    const hits = entries.map((entry) => ({entry, score: score(entry, words)})).filter((h) => h.score > 0)
      .sort((a, b) => b.score - a.score);
    results.replaceChildren(...hits.slice(0, limit).map((h) => row(h.entry, words)));
    status.textContent = hits.length === 0 ? `Nothing found for “${query.value.trim()}”.`
      : hits.length > limit ? `The first ${limit} of ${hits.length} sections`
        : `${hits.length} section${hits.length > 1 ? "s" : ""}`;
    found.hidden = false;
  }

  function close() {
    found.hidden = true;
    results.replaceChildren();
  }

  query.addEventListener("focus", () => load().catch(() => {}));
  query.addEventListener("input", show);
  document.addEventListener("click", (e) => {
    if (!box.contains(e.target) || e.target.closest("#results a")) close();
  });
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && !e.target.closest("input, textarea") && !e.ctrlKey && !e.metaKey && !e.altKey) {
      e.preventDefault();
      query.focus();
      query.select();
      return;
    }
    if (!box.contains(e.target)) return;
    const links = [...results.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    switch (e.key) {
    case "Escape":
      close();
      query.focus();
      break;
    case "ArrowDown":
    case "ArrowUp":
      e.preventDefault();
      (links[at + (e.key === "ArrowDown" ? 1 : -1)] ?? (e.key === "ArrowUp" ? query : links[at]))?.focus();
      break;
    case "Enter":
      if (e.target === query) links[0]?.click();
    }
  });
})();
