// Sorting, filtering, expanding and saving of tables. The page is complete without it; it fetches nothing.
(() => {
  "use strict";

  const make = (tag, text, properties) => Object.assign(document.createElement(tag), { textContent: text }, properties);
  const rowsOf = (table) => [...table.tBodies[0].rows];
  const textOf = (cell) => (cell.dataset.v ?? cell.textContent).trim();

  // "1,234", "<0.1 %" and "×2.5" are numbers; words are not, and sort behind them.
  const numberOf = (text) => {
    const found = /^[<>×\[]*\s*(-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)/i.exec(text);
    return found ? parseFloat(found[1].replaceAll(",", "")) : NaN;
  };

  const compare = (a, b) => {
    const [x, y] = [numberOf(a), numberOf(b)];
    if (!isNaN(x) && !isNaN(y)) return x - y;
    return isNaN(x) - isNaN(y) || a.localeCompare(b);
  };

  const sortBy = (table, column, heading) => {
    const up = heading.getAttribute("aria-sort") === "descending";
    const sign = up ? 1 : -1;
    for (const other of table.tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    const keyed = rowsOf(table).map((row) => [textOf(row.cells[column]), row]);
    keyed.sort((a, b) => sign * compare(a[0], b[0]));
    table.tBodies[0].append(...keyed.map(([, row]) => row));
  };

  const makeSortable = (table) => {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      if (heading.classList.contains("axis")) return;
      const button = make("button", "", { type: "button", className: "sorter", title: "sort" });
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sortBy(table, column, heading));
      heading.replaceChildren(button);
    });
  };

  // Every word must be somewhere in the row.
  const filter = (table, wanted, count) => {
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rowsOf(table)) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    count.textContent = words.length ? `${shown} of ${rowsOf(table).length} rows` : "";
  };

  const give = (content, name) => {
    const link = make("a", "", { download: name });
    link.href = URL.createObjectURL(content);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  // A spreadsheet would run what begins like a formula.
  const plain = (text) => (/^([=+@]|-(?![\d.]))/.test(text) ? `'${text}` : text);
  const quoted = (cell) => `"${plain(cell.textContent.trim().replace(/\s+/g, " ")).replaceAll('"', '""')}"`;
  const save = (table, name) => {
    const lines = [...table.rows].map((row) => [...row.cells].map(quoted).join(","));
    give(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }), `${name}.csv`);
  };

  // result.json, packed by gzip and base64. It is unpacked only when somebody asks for it.
  const unpacked = (data) => {
    const bytes = Uint8Array.from(atob(data.content.textContent), (char) => char.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).blob();
  };

  const addDownload = (data) => {
    const name = data.dataset.name;
    const button = make("button", `download the data (${name})`, { type: "button" });
    button.addEventListener("click", async () => give(await unpacked(data), name));
    document.getElementById("download").prepend(button, " ");
  };

  const addTools = (table) => {
    const name = table.dataset.name;
    const tools = make("div", "", { className: "tools" });
    const count = make("span", "", { className: "soft" });
    count.setAttribute("role", "status");
    const input = make("input", "", { type: "search", placeholder: `filter ${name}` });
    input.setAttribute("aria-label", `filter the rows of ${name}`);
    input.addEventListener("input", () => filter(table, input.value, count));
    const csv = make("button", "save as CSV", { type: "button" });
    csv.addEventListener("click", () => save(table, name));
    tools.append(input, csv, count);
    table.closest(".scroll").before(tools);
  };

  // A link to something inside a closed part opens it.
  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target.scrollIntoView();
  };

  const addExpander = (nav) => {
    const button = make("button", "expand all", { type: "button", id: "expand" });
    button.addEventListener("click", () => {
      const open = button.textContent === "expand all";
      for (const part of document.querySelectorAll("details")) part.open = open;
      button.textContent = open ? "collapse all" : "expand all";
    });
    nav.append(button);
  };

  document.querySelectorAll("table[data-name]").forEach((table) => {
    makeSortable(table);
    addTools(table);
  });
  addExpander(document.querySelector("nav"));
  document.querySelectorAll("template[data-name]").forEach(addDownload);
  window.addEventListener("hashchange", reveal);
  const closed = [];
  window.addEventListener("beforeprint", () => {
    closed.push(...document.querySelectorAll("details:not([open])"));
    for (const part of closed) part.open = true;
  });
  window.addEventListener("afterprint", () => closed.splice(0).forEach((part) => (part.open = false)));
  reveal();
})();
