// A RISC-V computer, instruction by instruction: registers, memory around pc and sp, and what the heads look up.

const NAMES = ["zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5",
  "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6"];
const hex = (value, digits) => value.toString(16).padStart(digits, "0");

class View {
  constructor(page, data) {
    this.data = data;
    const { steps } = data;
    this.now = make("p", { class: "said" });
    this.registers = make("pre", { "aria-label": "registers", tabindex: 0 });
    this.code = make("pre", { "aria-label": "memory around pc", tabindex: 0 });
    this.stack = make("pre", { "aria-label": "memory around sp", tabindex: 0 });
    this.looks = make("pre", { "aria-label": "what the heads look up", tabindex: 0 });
    this.output = make("pre", { "aria-label": "output", tabindex: 0 });
    this.player = new Player({
      last: steps.length - 1, noun: "instruction", density: steps.map((step) => step.looks.length),
      say: (k) => `instruction ${steps[k].number + 1} of ${steps.length}`, show: (k) => this.show(k),
    });
    const part = (title, element) => make("section", {}, make("h2", {}, title), element);
    page.replaceChildren(
      pageHeader(data.title, data.text, [`by ${data.evaluator}`, counted(steps.length, "instruction")]),
      this.player.element, this.now,
      part("Registers", this.registers), part("Memory around pc", this.code), part("Memory around sp", this.stack),
      part("What the heads look up", this.looks), part("Output so far", this.output),
      helpLine([["arrows", "one instruction on or back"], ["space", "play"]]));
    this.player.go(0);
  }

  show(k) {
    const step = this.data.steps[k], before = this.data.steps[Math.max(0, k - 1)];
    this.now.textContent = `pc ${hex(step.pc, 8)}   ${hex(step.instruction, 8)}   ${step.text}`;
    const registers = [];
    for (let row = 0; row < 8; row++) {
      for (const first of [0, 8, 16, 24]) {
        const number = first + row, value = hex(step.registers[number], 8);
        const changed = step.registers[number] !== before.registers[number];
        registers.push(`x${number}`.padEnd(4), NAMES[number].padEnd(5), changed ? make("strong", {}, value) : value, "   ");
      }
      registers.push("\n");
    }
    this.registers.replaceChildren(...registers);
    this.dump(this.code, step.near_pc, step.pc, 4);
    this.dump(this.stack, step.near_sp, step.registers[2], 4);
    this.looks.textContent = step.looks.map(([layer, head, found]) =>
      `layer ${layer}  ${this.data.heads[head].padEnd(15)}  ${this.data.found[found] || "nothing"}`).join("\n");
    this.output.textContent = this.data.steps.slice(0, k + 1).map((one) => one.output).join("");
  }

  dump(element, [first, bytes], marked, count) {
    const parts = [];
    for (let line = 0; line < bytes.length / 32; line++) {
      parts.push(`${hex(first + 16 * line, 8)}  `);
      for (let k = 0; k < 16 && 32 * line + 2 * k < bytes.length; k++) {
        const address = first + 16 * line + k, byte = bytes.slice(32 * line + 2 * k, 32 * line + 2 * k + 2);
        parts.push(address >= marked && address < marked + count ? make("strong", {}, byte) : byte, " ");
      }
      parts.push("\n");
    }
    element.replaceChildren(...parts);
  }
}
