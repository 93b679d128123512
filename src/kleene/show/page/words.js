// Runs of a recurrent network on words: the recorded one, and those that the network in the page makes. Both have one form:
// word, symbols, hidden and named (Maps: place → text of an exact number), outputs, answer, states, tapes, moves.

const MOST_STEPS = 500; // of a machine, on a typed word
const UNREADABLE = ["?", [], "?", []];

/** The run that was made before the page was written. */
function recordedWord(data) {
  const unpack = (cells) => {
    const found = new Map();
    for (let i = 0; i < cells.length; i += 2) found.set(cells[i], data.values[cells[i + 1]]);
    return found;
  };
  const run = {
    live: false, word: data.word, symbols: data.symbols, hidden: data.hidden.map(unpack), named: data.named.map(unpack),
    outputs: data.outputs, answer: data.answer, states: data.states, tapes: data.tapes,
  };
  return { ...run, moves: movesOf(data, run.tapes) };
}

/** Run a word (symbols) on the network in the page, with some units switched off; `most` steps at most. */
async function liveWord(data, network, word, { off = new Set(), most = null } = {}) {
  const { net } = network, inputs = [...word, ...(net.decides ? [net.end] : [])];
  const limit = most ?? (net.decides ? net.lead[0] * word.length + net.lead[1] + Math.max(MOST_STEPS, data.symbols.length) : inputs.length);
  const run = { live: true, word, symbols: [], hidden: [], named: [], outputs: [], answer: null };
  const tapes = net.roles ? [] : null;
  let g = new Map([...network.start].filter(([unit]) => !off.has(unit))), since = performance.now();
  for (;;) {
    const outputs = network.output(g), texts = (values) => new Map([...values].map(([place, value]) => [place, asText(value)]));
    run.hidden.push(texts(g));
    run.named.push(texts(network.named(g)));
    run.outputs.push(outputs.map(asText));
    run.answer = network.answer(outputs);
    tapes?.push(tapeOf(net, network.read(g)));
    const time = run.symbols.length;
    if (net.decides ? run.answer !== null || time >= limit : time >= inputs.length) break;
    const symbol = inputs[time] ?? net.nul;
    run.symbols.push(symbol);
    g = network.step(g, network.codes.get(symbol), off);
    if (performance.now() - since > 40) {
      await new Promise((go) => setTimeout(go));
      since = performance.now();
    }
  }
  return { ...run, states: data.machine?.table ? pathOf(data.machine, word).map((state) => data.machine.names[state]) : null, tapes, moves: movesOf(data, tapes) };
}

/** State, cells to the left (nearest first), symbol and cells to the right, as named values code them. */
function tapeOf(net, values) {
  let state = "", symbol = "";
  const stacks = { l: new Map(), r: new Map() }, is = (place) => values.has(place) && asText(values.get(place)) === "1";
  net.roles.forEach((role, place) => {
    const part = role[0].replace(/0$/, ""); // of several tapes, the first
    if (part in stacks) stacks[part].set(role[1], values.get(place) ?? [0n, 1n]);
    else if (is(place) && part === "pair") [, state, symbol] = role;
    else if (is(place) && part === "q") [, state] = role;
    else if (is(place) && part === "c") [, symbol] = role;
  });
  const sides = ["l", "r"].map((part) => cellsOf(net, stacks[part]));
  return sides.includes(null) ? UNREADABLE : [state, sides[0], symbol || net.blank, sides[1]];
}

/** The symbols of a stack, top first, from the digits of its numbers; an empty text is the bottom. */
function cellsOf(net, stack) {
  const digits = [...stack].map(([symbol, value]) => [symbol, digitsOf(value, net.base)?.slice(1)]);
  if (digits.some(([, line]) => !line)) return null;
  const cells = Array(Math.max(0, ...digits.map(([, line]) => line.length))).fill(net.blank);
  for (const [symbol, line] of digits) line.forEach((digit, depth) => { if (digit === net.base - 1) cells[depth] = symbol; });
  return cells.includes("") ? cells.slice(0, cells.indexOf("")) : cells;
}

/** How the head moved before each time. */
function movesOf(data, tapes) {
  const rows = data.machine?.transitions;
  return tapes?.map(([state], time) => {
    const before = tapes[time - 1], step = time && rows ? rows[before[0]]?.[before[2]] : null;
    return step && step[0] === state ? step[2] : 0;
  }) ?? null;
}

/** The states of an automaton on a word, the first one first. */
function pathOf(machine, word) {
  const path = [machine.start];
  for (const symbol of word) path.push(machine.table[path.at(-1)][machine.alphabet.indexOf(symbol)]);
  return path;
}

/** The configurations of a Turing machine, run as it is defined: at most `count` of them. */
function configurations(machine, word, count) {
  const { transitions, blank } = machine, left = [], right = [...word].reverse(), found = [];
  let state = machine.start, symbol = right.pop() ?? blank, move = 0;
  while (found.length < count) {
    found.push([state, [...left].reverse(), symbol, [...right].reverse()]);
    if (!transitions[state]) break;
    [state, symbol, move] = transitions[state][symbol];
    if (move > 0) { left.push(symbol); symbol = right.pop() ?? blank; }
    else if (move < 0 && (left.length || machine.two_way)) { right.push(symbol); symbol = left.pop() ?? blank; }
  }
  return found;
}

/** Where the network differs from the machine that it was made from, run beside it; null where it does not, or there is none. */
function differsFromMachine(data, network, run) {
  const { machine } = data;
  if (machine?.table) {
    const path = pathOf(machine, run.word);
    const time = path.findIndex((state, t) => (network.answer(run.outputs[t].map(fraction)) === "accept") !== machine.accepting.includes(state));
    return time < 0 ? null : `after ${counted(time, "symbol")} the automaton ${machine.accepting.includes(path[time]) ? "accepts" : "rejects"}, and the network does not`;
  }
  if (!machine?.transitions) return null;
  const lead = network.net.lead[0] * run.word.length + network.net.lead[1];
  const bare = (cells) => { const kept = [...cells]; while (kept.length && kept.at(-1) === machine.blank) kept.pop(); return kept.join("\n"); };
  const told = ([state, left, symbol, right]) => [state, bare(left), symbol, bare(right)].join("\t");
  const steps = configurations(machine, run.word, Math.max(0, run.tapes.length - lead));
  const step = steps.findIndex((one, k) => told(one) !== told(run.tapes[lead + k] ?? UNREADABLE));
  return step < 0 ? null : `after ${counted(step, "step")} the machine is in another configuration than the network's numbers code`;
}

/** What differs between two runs of one word: null, or the first difference in words. */
function firstWordDifference(data, one, other) {
  if (one.symbols.length !== other.symbols.length) return `one takes ${counted(one.symbols.length, "step")}, the other ${other.symbols.length}`;
  for (let time = 0; time <= one.symbols.length; time++) {
    for (const part of ["hidden", "named"]) {
      const a = one[part][time] ?? new Map(), b = other[part][time] ?? new Map();
      for (const place of new Set([...a.keys(), ...b.keys()])) {
        if (part === "hidden" && place >= data.units) continue; // not recorded
        if ((a.get(place) ?? "0") !== (b.get(place) ?? "0")) return `time ${time}, ${part === "hidden" ? `unit ${place}` : data.names[place]}: ${a.get(place) ?? 0} and ${b.get(place) ?? 0}`;
      }
    }
    if (String(one.outputs[time]) !== String(other.outputs[time])) return `time ${time}, the output: ${one.outputs[time]} and ${other.outputs[time]}`;
    if (one.states && one.states[time] !== other.states?.[time]) return `time ${time}, the state: ${one.states[time]} and ${other.states?.[time]}`;
    if (one.tapes && JSON.stringify(one.tapes[time]) !== JSON.stringify(other.tapes?.[time])) return `time ${time}, the tape`;
  }
  return one.answer === other.answer ? null : `the answer: ${one.answer} and ${other.answer}`;
}

const SHORT = 7, LONG = 90; // characters of a number in the grid, and of an exact one beside it
const written = new Map();

/** A number shortly, for the grid, and exactly. The fractions of stacks are written by their digits. */
function numberTexts(exact, base) {
  if (!exact.includes("/")) return [exact, exact];
  if (!written.has(exact)) {
    const value = fraction(exact), digits = base && base <= 10 ? digitsOf(value, base) : null;
    if (!digits) {
      const near = Number((value[0] * 1_000_000n) / value[1]) / 1_000_000;
      written.set(exact, [exact.length <= SHORT ? exact : `≈${near.toFixed(3)}`, exact.length <= 4 * LONG ? exact : `${exact.slice(0, 4 * LONG)}…`]);
    } else {
      const line = `${digits[0] || ""}.${digits.slice(1).join("")}`, cut = (size) => line.length <= size ? line : `${line.slice(0, size)}…`;
      written.set(exact, [cut(SHORT), `${exact.length <= LONG ? `${exact} = ` : ""}${cut(LONG)} in base ${base}`]);
    }
  }
  return written.get(exact);
}
