// Play, pause, step and scrub through the steps 0 … last, by mouse, touch and keyboard.

class Player {
  /** `density[k]` is how much happens in step k; `say(k)` names it; `show(k)` draws it. */
  constructor({ last, noun, density, say, show, signal }) {
    Object.assign(this, { last, say, show, at: 0, timer: null });
    const button = (sign, label, act) =>
      make("button", { type: "button", "aria-label": label, title: label, onclick: act }, icon(sign));
    this.playButton = button("play", "play", () => this.toggle());
    this.playButton.classList.add("play");
    this.range = make("input", {
      type: "range", min: 0, max: last, value: 0, "aria-label": noun, oninput: () => this.go(Number(this.range.value)),
    });
    this.said = make("output", { class: "said", "aria-live": "polite" });
    this.speed = make("select", { "aria-label": "speed", title: "speed" },
      [["½×", 1200], ["1×", 600], ["2×", 300], ["4×", 150], ["16×", 40]].map(([name, wait]) =>
        make("option", { value: wait, selected: wait === 600 }, name)));
    this.cursor = make("line", { y1: 0, y2: 1, class: "cursor" });
    this.element = make("div", { class: "player", role: "group", "aria-label": "steps" },
      make("div", { class: "buttons" },
        button("first", "first", () => this.go(0)), button("back", "one back", () => this.go(this.at - 1)),
        this.playButton,
        button("next", "one on", () => this.go(this.at + 1)), button("last", "last", () => this.go(last))),
      make("div", { class: "track" }, this.drawDensity(density), this.range),
      make("div", { class: "where" }, this.said, this.speed));
    document.addEventListener("keydown", (event) => this.key(event), { signal });
  }

  drawDensity(density) {
    const most = Math.max(1, ...density), count = density.length;
    const bars = density.map((n, k) => n ? `M${k + 0.5} 1V${1 - Math.max(0.06, n / most)}` : "").join("");
    return make("svg", { class: "density", viewBox: `0 0 ${count} 1`, preserveAspectRatio: "none", "aria-hidden": "true" },
      make("path", { d: bars }), this.cursor);
  }

  go(step) {
    this.at = Math.min(this.last, Math.max(0, step));
    this.range.value = this.at;
    this.cursor.setAttribute("x1", this.at + 0.5);
    this.cursor.setAttribute("x2", this.at + 0.5);
    this.said.textContent = this.say(this.at);
    this.range.setAttribute("aria-valuetext", this.said.textContent);
    if (this.at === this.last) this.pause();
    this.show(this.at);
  }

  toggle() {
    if (this.timer !== null) return this.pause();
    if (this.at === this.last) this.go(0);
    this.playButton.replaceChildren(icon("pause"));
    this.playButton.setAttribute("aria-label", "pause");
    this.timer = 0;
    this.tick();
  }

  tick() {
    this.timer = setTimeout(() => {
      this.go(this.at + 1);
      if (this.timer !== null) this.tick();
    }, Number(this.speed.value));
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.playButton.replaceChildren(icon("play"));
    this.playButton.setAttribute("aria-label", "play");
  }

  key(event) {
    if (isTyping(event) || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const acts = {
      ArrowLeft: () => this.go(this.at - 1), ArrowRight: () => this.go(this.at + 1),
      Home: () => this.go(0), End: () => this.go(this.last), " ": () => this.toggle(),
    };
    if (!(event.key in acts) || (event.key === " " && event.target.matches("button, summary, [type=checkbox]"))) return;
    event.preventDefault();
    acts[event.key]();
  }
}
