// Text in, text out, by the same rules as kleene.common.text: an alphabet, a first and a last symbol, padding.

class Alphabet {
  /** `text` is the data of a Text, or null; `labels[t]` is the name of token t. */
  constructor(text, labels, count) {
    this.text = text;
    this.count = count;
    this.symbols = text?.alphabet ?? null;
    this.labels = labels;
    const names = this.symbols ?? [];
    this.spaced = names.some((symbol) => [...symbol].length !== 1);
    this.places = new Map(names.map((symbol, place) => [symbol, place]));
  }

  /** The tokens of what was typed; an Error says what is wrong. */
  encode(typed) {
    const listed = typed.trim().match(/^\[([\d,\s]*)\]$/);
    if (listed || !this.symbols) return this.numbers(listed ? listed[1] : typed, typed);
    const { start = "", end = "", align = "", room = [] } = this.text;
    let symbols = this.spaced ? typed.split(/\s+/).filter(Boolean) : [...(this.places.has(" ") ? typed : typed.replace(/\s+/g, ""))];
    if (start && symbols[0] !== start) symbols.unshift(start);
    if (end && (symbols.length < 2 || symbols[symbols.length - 1] !== end)) symbols.push(end);
    if (align) symbols = this.aligned(typed, symbols, start ? 1 : 0, end ? 1 : 0, align);
    for (const size = room[symbols.length] ?? 0; symbols.length < size;) symbols.push(this.symbols[0]);
    return symbols.map((symbol) => {
      if (!this.places.has(symbol)) throw new Error(`“${symbol}” is not in the alphabet ${this.symbols.slice(0, 40).join(this.spaced ? " " : "")}.`);
      return this.places.get(symbol);
    });
  }

  aligned(typed, symbols, first, last, [sign, fill]) {
    const body = symbols.slice(first, symbols.length - last), at = body.indexOf(sign);
    if (at <= 0 || at === body.length - 1 || body.lastIndexOf(sign) !== at) throw new Error(`“${typed}” is not of the form a${sign}b, such as ${this.text.example}.`);
    const left = body.slice(0, at), right = body.slice(at + 1), size = Math.max(left.length, right.length);
    const pad = (part) => [...Array(size - part.length).fill(fill), ...part];
    return [...symbols.slice(0, first), ...pad(left), sign, ...pad(right), ...symbols.slice(symbols.length - last)];
  }

  numbers(list, typed) {
    return list.split(/[\s,]+/).filter(Boolean).map((word) => {
      const token = /^\d+$/.test(word) ? Number(word) : -1;
      if (token < 0 || token >= this.count) throw new Error(`“${word}” in “${typed}” is not a token 0 … ${this.count - 1}.`);
      return token;
    });
  }

  /** Tokens as they are typed. */
  written(tokens) {
    if (!this.symbols) return tokens.join(" ");
    const { start = "", end = "" } = this.text;
    let names = tokens.map((token) => this.symbols[token]);
    if (this.text.room) while (names.length && names[names.length - 1] === this.symbols[0]) names.pop();
    if (start && names[0] === start) names = names.slice(1);
    if (end && names[names.length - 1] === end) names = names.slice(0, -1);
    return names.join(this.spaced ? " " : "");
  }

  /** Tokens as they are typed; as a list where `encode` would complete the text. */
  exactly(tokens) {
    const typed = this.written(tokens);
    try { if (String(this.encode(typed)) === String(tokens)) return typed; } catch { /* a list, then */ }
    return `[${tokens}]`;
  }

  /** The answer that outputs spell; null where nothing says how. */
  answer(outputs) {
    if (!this.text) return null;
    const { names = [], part = [null, null], join = "", strip = "", omit = [], reverse = false } = this.text;
    let texts = outputs.map((value) => names[value] ?? String(value)).slice(part[0] ?? 0, part[1] ?? undefined);
    texts = texts.filter((text) => !omit.includes(text));
    let said = (reverse ? texts.reverse() : texts).join(join);
    if (strip) { while (said.startsWith(strip)) said = said.slice(strip.length); said ||= strip; }
    return said;
  }
}
