// The attention of one head, above the grid: each line goes from a position that looks (below, at its column) up to
// a position that it selects (above, at that column).

const STRIP = 88;

class Attention {
  constructor(grid) {
    this.grid = grid;
    this.title = make("th", { scope: "row" });
    this.all = make("path", { class: "link" });
    this.dots = make("path", { class: "dot" });
    this.mine = make("path", { class: "link mine" });
    this.mineDots = make("path", { class: "dot mine" });
    this.picture = make("svg", { height: STRIP, role: "img" }, this.all, this.dots, this.mine, this.mineDots);
    this.place = make("td", { colspan: grid.count }, this.picture);
    grid.strip.append(this.title, this.place);
  }

  hide() {
    this.grid.strip.hidden = true;
  }

  /** `selections[position]` are runs first, last, …; `chosen` is the position whose lines stand out, or null. */
  draw(name, selections, chosen) {
    const { grid } = this;
    grid.strip.hidden = false;
    this.title.replaceChildren(make("span", {}, "selected"), make("b", {}, name), make("span", {}, "looking"));
    const origin = this.place.getBoundingClientRect().left;
    const middles = grid.heads.map((head) => {
      const box = head.getBoundingClientRect();
      return box.left + box.width / 2 - origin;
    });
    const width = this.place.getBoundingClientRect().width;
    this.picture.setAttribute("width", width);
    this.picture.setAttribute("viewBox", `0 0 ${width} ${STRIP}`);
    const inside = (position) => position >= grid.first && position < Math.min(grid.first + grid.count, grid.columns.length);
    const lines = ["", ""], dots = ["", ""];
    let count = 0;
    selections.forEach((runs, from) => {
      if (!inside(from)) return;
      const which = from === chosen ? 1 : 0, x = middles[from - grid.first];
      for (let r = 0; r < runs.length; r += 2) {
        for (let to = runs[r]; to <= runs[r + 1]; to++) {
          count += 1;
          const y = inside(to) ? middles[to - grid.first] : to < grid.first ? 0 : width; // towards the edge
          lines[which] += `M${x} ${STRIP}C${x} ${STRIP * 0.45} ${y} ${STRIP * 0.55} ${y} 7`;
          if (inside(to)) dots[which] += `M${y} 5h0`;
        }
      }
    });
    this.all.setAttribute("d", lines[0]);
    this.dots.setAttribute("d", dots[0]);
    this.mine.setAttribute("d", lines[1]);
    this.mineDots.setAttribute("d", dots[1]);
    this.picture.classList.toggle("dense", count > 400);
    this.picture.classList.toggle("focused", lines[1] !== "");
    this.picture.setAttribute("aria-label", `attention of ${name}: ${counted(count, "selected position")}`);
    this.picture.dataset.links = count;
  }
}
