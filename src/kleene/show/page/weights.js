// The weights by named dimension: choose a variable or head, or type a name; every matrix row that mentions it is listed.

const MOST_ROWS = 120;
const MOST_DRAWN = 90_000; // numbers of a matrix that is drawn

class Weights {
  constructor(place, data) {
    this.weights = data.weights;
    if (!this.weights) return place.replaceChildren(make("p", { class: "quiet" }, `Weights are ${data.without_weights}.`));
    const { sizes, dtype, lowering, segments, cut } = this.weights;
    const facts = this.weights.facts ?? [`${sizes.residual} dimensions`, counted(sizes.heads, "head"), counted(sizes.hidden, "clipped unit"),
      counted(sizes.nonzero, "weight") + " not zero", dtype, `lowering: ${lowering}`];
    this.search = make("input", { type: "search", placeholder: "a dimension or unit, such as " + segments[0][2][0], "aria-label": "filter by name", oninput: () => this.list() });
    this.group = make("select", { "aria-label": "variable or head", onchange: () => { this.search.value = ""; this.list(); } },
      make("option", { value: "" }, "all dimensions"),
      segments.map(([name, coding, labels]) => make("option", { value: name }, `${name} · ${labels.length} (${coding})`)));
    this.found = make("div", { class: "matrices" });
    place.replaceChildren(
      make("p", { class: "facts" }, facts.map((fact) => make("span", {}, fact))),
      make("div", { class: "filters" }, this.group, this.search, this.count = make("output", { class: "quiet", "aria-live": "polite" })),
      cut.length ? make("p", { class: "quiet" }, `Left out, for their size: ${cut.join(", ")}`) : "", this.found);
    this.list();
  }

  /** Whether a name of a dimension or unit is asked for. */
  wanted() {
    const text = this.search.value.trim().toLowerCase();
    if (text) return (name) => name.toLowerCase().includes(text);
    const chosen = this.weights.segments.find(([name]) => name === this.group.value);
    if (!chosen) return null;
    const labels = new Set(chosen[2]);
    return (name) => labels.has(name);
  }

  list() {
    const wanted = this.wanted();
    let total = 0;
    const blocks = this.weights.matrices.map((matrix) => {
      const rows = this.weights.lists[matrix.rows], columns = this.weights.lists[matrix.columns];
      const lines = new Map();
      for (let i = 0; i < matrix.entries.length; i += 3) {
        const [row, column, weight] = matrix.entries.slice(i, i + 3);
        if (!lines.has(row)) lines.set(row, []);
        lines.get(row).push([columns[column], weight]);
      }
      const kept = [...lines].filter(([row, terms]) => !wanted || wanted(rows[row]) || (matrix.notes && wanted(matrix.notes[row])) || terms.some(([name]) => wanted(name)));
      total += kept.length;
      return kept.length ? this.block(matrix, rows, kept, wanted) : null;
    });
    this.count.textContent = `${counted(total, "row")}`;
    this.found.replaceChildren(...blocks.filter(Boolean));
    this.found.firstChild?.setAttribute("open", "");
  }

  /** Terms of one variable together: [variable, [[value, weight, name], …]]; the variable is null for a name without a value. */
  grouped(terms) {
    const groups = [];
    for (const [name, weight] of terms) {
      const at = name.search(/[=.](?!.*[=.])/), variable = at > 0 ? name.slice(0, at) : null;
      const last = groups[groups.length - 1];
      if (variable !== null && last && last[0] === variable) last[1].push([name.slice(at + 1), weight, name]);
      else groups.push([variable, [[variable === null ? name : name.slice(at + 1), weight, name]]]);
    }
    return groups;
  }

  told([variable, terms], wanted) {
    const hit = (name) => wanted && wanted(name) ? "hit" : null;
    const number = (weight) => make("em", { class: weight < 0 ? "minus" : "plus" }, `${weight < 0 ? "−" : "+"}${Number(Math.abs(weight).toPrecision(6))}`);
    if (terms.length === 1) {
      const [, weight, name] = terms[0];
      return make("code", { class: hit(name) }, number(weight), ` ${name === "1" ? "(bias)" : name}`);
    }
    return make("code", {}, `${variable} `, terms.map(([value, weight, name]) => [make("span", { class: `of ${hit(name) ?? ""}` }, `${value}: `, number(weight)), " "]));
  }

  block(matrix, rows, kept, wanted) {
    const table = make("div", { class: "terms" });
    const fill = (from) => {
      if (!from && matrix.entries.length <= MOST_DRAWN) table.append(make("figure", { class: "map-box", tabindex: 0, role: "group", "aria-label": `map of ${matrix.group} ${matrix.name}` },
        matrixMap(matrix, rows, this.weights.lists[matrix.columns], this.found.clientWidth - 40)));
      for (const [row, terms] of kept.slice(from, from + MOST_ROWS)) {
        table.append(make("div", {}, make("b", {}, rows[row]), matrix.notes ? make("i", {}, matrix.notes[row]) : null,
          make("span", {}, this.grouped(terms).map((group) => this.told(group, wanted)))));
      }
      if (from + MOST_ROWS < kept.length) {
        const more = make("button", { type: "button", class: "link", onclick: () => { more.remove(); fill(from + MOST_ROWS); } },
          `${counted(kept.length - from - MOST_ROWS, "more row")}`);
        table.append(more);
      }
    };
    return make("details", { ontoggle: () => { if (!table.hasChildNodes()) fill(0); } },
      make("summary", {}, make("b", {}, matrix.group), ` ${matrix.name} `, make("span", { class: "quiet" }, counted(kept.length, "row"))), table);
  }
}

/** A matrix as a map: rows down, columns across, in named blocks; blue above zero, orange below. */
function matrixMap(matrix, rows, columns, width) {
  const block = (names) => { // [first, name] of each run of one variable
    const found = [];
    names.forEach((name, i) => {
      const at = name.search(/[=.](?!.*[=.])/), owner = name === "1" ? "bias" : at > 0 ? name.slice(0, at) : name.replace(/ [\d.]+$/, "");
      if (!found.length || found[found.length - 1][1] !== owner) found.push([i, owner]);
    });
    return found;
  };
  const left = 96, top = 66, wide = Math.max(320, width) - left - 8, tall = Math.min(360, Math.max(24, rows.length * 7));
  const x = (c) => left + c * wide / columns.length, y = (r) => top + r * tall / rows.length;
  const parts = ["", ""], dx = Math.max(0.8, wide / columns.length), dy = Math.max(0.8, tall / rows.length);
  for (let i = 0; i < matrix.entries.length; i += 3) {
    const [row, column, weight] = [matrix.entries[i], matrix.entries[i + 1], matrix.entries[i + 2]];
    parts[weight < 0 ? 1 : 0] += `M${x(column).toFixed(1)} ${y(row).toFixed(1)}h${dx.toFixed(1)}v${dy.toFixed(1)}h${(-dx).toFixed(1)}z`;
  }
  const across = block(columns), down = block(matrix.notes ? rows.map((_, r) => matrix.notes[r].split(": ")[0]) : rows);
  const lines = across.map(([c]) => `M${x(c).toFixed(1)} ${top}V${top + tall}`).join("") + down.map(([r]) => `M${left} ${y(r).toFixed(1)}H${left + wide}`).join("");
  const short = (text) => [...text].length > 13 ? `${[...text].slice(0, 12).join("")}…` : text;
  const spaced = (list, to, least) => { // leave out names that would stand on each other
    let last = -Infinity;
    return list.filter(([first]) => { const here = to(first); if (here - last < least) return false; last = here; return true; });
  };
  return make("svg", {
    class: "map", width: left + wide + 8, height: top + tall + 6, role: "img",
    "aria-label": `${matrix.group} ${matrix.name}: ${rows.length} by ${columns.length}, blocks ${across.map(([, name]) => name).join(", ")}`,
  }, make("rect", { x: left, y: top, width: wide, height: tall, class: "field" }),
  make("path", { d: parts[0], class: "above" }), make("path", { d: parts[1], class: "below" }), make("path", { d: lines, class: "blocks" }),
  ...spaced(across, x, 12).map(([c, name]) => make("text", { transform: `translate(${(x(c) + 9).toFixed(1)} ${top - 4}) rotate(-60)` }, short(name))),
  ...spaced(down, y, 11).map(([r, name]) => make("text", { x: left - 5, y: (y(r) + 9).toFixed(1), class: "side" }, short(name))));
}
