"use strict";
/* Objects without a prototype: a measure may be called "constructor", and what is in no list is not numbers in one. */
const bare = (key, value) =>
  value && typeof value === "object" && !Array.isArray(value) ? Object.assign(Object.create(null), value) : value;
const D = JSON.parse(document.getElementById("data").textContent, bare);
const at = id => document.getElementById(id);
const state = {q: "", c: "", t: "", m: "", b: "", s: "", sort: "", up: ""};

function make(tag, options = {}, ...inside) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "on") node.addEventListener("click", value);
    else if (name === "style") Object.assign(node.style, value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...inside.filter(part => part != null));
  return node;
}

const number = (value, measure) => value == null ? "–" : value.toFixed(D.measures[measure].digits);
const span = (low, high, measure) => low == null ? "" : `${number(low, measure)}–${number(high, measure)}`;
const places = (best, worst) => !best ? "" : best === worst ? `${best}` : `${best}–${worst}`;
const heading = board => `${D.collections[board.collection]}${board.split ? ` ${board.split}` : ""}`;

/* A row of numbers of a system on a board: [value, low, high, best, worst], or nothing. */
const cell = (board, system, measure) => (board.rows[system] || {})[measure];

function boards() {
  return D.boards.filter(board => (state.c === "" || board.collection === +state.c)
    && (state.t === "" || board.task === state.t) && state.m in board.measures);
}

function systems(shown) {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const listed = [];
  D.systems.forEach((name, system) => {
    const fits = words.every(word => name.toLowerCase().includes(word));
    if (fits && shown.some(board => cell(board, system, state.m))) listed.push(system);
  });
  const by = shown.find(board => board.key === state.sort) || shown[0];
  const low = D.measures[state.m].low;
  const value = system => { const numbers = cell(by, system, state.m); return numbers ? numbers[0] : null; };
  if (state.sort === "name") {
    listed.sort((a, b) => D.systems[a].localeCompare(D.systems[b]));
  } else if (by) {
    listed.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x == null || y == null) return (x == null) - (y == null) || D.systems[a].localeCompare(D.systems[b]);
      return (low ? x - y : y - x) || D.systems[a].localeCompare(D.systems[b]);
    });
  }
  return {listed: state.up ? listed.reverse() : listed, by};
}

function matrix() {
  const shown = boards();
  const {listed, by} = systems(shown);
  at("count").textContent = `${listed.length} of ${D.systems.length} systems · ${shown.length} of ${D.boards.length} columns`;
  if (!shown.length || !listed.length) return make("p", {class: "missing"}, "Nothing here has these words and this measure.");
  const order = key => () => { state.up = state.sort === key && !state.up ? "1" : ""; state.sort = key; go(); };
  const sorted = key => (state.sort || (by && by.key)) === key && (state.up ? "ascending" : "descending");
  const head = make("tr", {}, make("th", {scope: "col", "aria-sort": state.sort === "name" && sorted("name")},
    make("button", {on: order("name")}, make("b", {}, "System"))));
  for (const board of shown) {
    head.append(make("th", {scope: "col", "aria-sort": sorted(board.key)},
      make("button", {on: order(board.key), title: "sort by this column"},
        make("b", {}, heading(board)), make("small", {}, `${board.words} · ${board.queries.toLocaleString("en")} queries`),
        ...board.differs.map(line => make("small", {}, line))),
      make("button", {class: "rank", on: () => { state.b = board.key; go(); }, "aria-label": `ranking of ${heading(board)}, ${board.words}`}, "ranking →")));
  }
  const rows = listed.map(system => {
    const row = make("tr", {}, make("th", {scope: "row", title: D.systems[system], dir: "auto"}, D.systems[system]));
    for (const board of shown) {
      const numbers = cell(board, system, state.m);
      if (!numbers) { row.append(make("td", {})); continue; }
      const [value, low, high, best, worst] = numbers;
      row.append(make("td", {class: best === 1 && "among-best"}, make("button", {on: open(board, system)},
        make("span", {}, make("span", {class: "place", title: "possible places"}, places(best, worst)), " ",
          make("b", {}, number(value, state.m))), make("small", {}, span(low, high, state.m)))));
    }
    return row;
  });
  const chance = shown.some(board => state.m in board.chance) && make("tfoot", {}, make("tr", {},
    make("th", {scope: "row"}, "by chance"),
    ...shown.map(board => make("td", {}, state.m in board.chance ? number(board.chance[state.m], state.m) : ""))));
  return make("div", {class: "matrix", tabindex: "0", role: "region", "aria-label": "Systems and tasks"},
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows), chance || null));
}

function ranking(board) {
  const {listed} = systems([board]);
  at("count").textContent = listed.length === 1 ? "1 system" : `${listed.length} systems`;
  const all = listed.map(system => cell(board, system, state.m));
  const ends = all.flatMap(([value, low, high]) => [value, low ?? value, high ?? value]).filter(value => value != null);
  if (state.m in board.chance) ends.push(board.chance[state.m]);
  let [least, most] = [Math.min(...ends), Math.max(...ends)];
  const room = (most - least || 1) * .04;
  [least, most] = [least - room, most + room];
  const x = value => `${100 * (value - least) / (most - least)}%`;
  const items = listed.map((system, index) => {
    const [value, low, high, best, worst] = all[index];
    const bar = make("span", {class: "bar", "aria-hidden": "true"},
      state.m in board.chance ? make("u", {style: {left: x(board.chance[state.m])}}) : null,
      low == null ? null : make("i", {style: {left: x(low), width: `${100 * (high - low) / (most - least)}%`}}),
      value == null ? null : make("s", {style: {left: x(value)}}));
    return make("li", {class: best === 1 && "among-best"}, make("button", {on: open(board, system)},
      make("span", {class: "place"}, places(best, worst) || "–"), make("span", {class: "name", dir: "auto"}, D.systems[system]), bar,
      make("span", {class: "value"}, number(value, state.m), make("small", {}, span(low, high, state.m)))));
  });
  const measure = D.measures[state.m];
  const about = make("div", {class: "about"}, make("h2", {}, `${heading(board)} · ${board.words}`),
    make("p", {}, make("b", {}, measure.name), ` · ${measure.says} `, `${board.queries.toLocaleString("en")} queries, `
      + `${board.units.toLocaleString("en")} of them independent. The first column: the places that a system may have.`
      + (state.m in board.chance ? " The dotted line is chance." : "")),
    ...[...board.differs, ...board.notes].map(line => make("p", {}, line)));
  return make("div", {}, about, make("ol", {class: "ranking"}, ...items));
}

const pairs = entries => make("dl", {}, ...entries.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {dir: "auto"}, value)]));

function open(board, system) {
  return () => { state.b2 = board.key; state.s = String(system); go(); };
}

function detail(board, system) {
  const box = at("detail");
  const entry = D.entries.find(entry => entry.system === system && entry.boards.includes(board.key));
  const rows = Object.keys(board.measures).filter(measure => cell(board, system, measure)).map(measure => {
    const [value, low, high, best, worst] = cell(board, system, measure);
    return make("tr", {}, make("th", {scope: "row", title: D.measures[measure].says}, D.measures[measure].name),
      make("td", {class: "number"}, number(value, measure)), make("td", {class: "number"}, span(low, high, measure)),
      make("td", {class: "number"}, places(best, worst)),
      make("td", {class: "number"}, measure in board.chance ? number(board.chance[measure], measure) : ""));
  });
  box.replaceChildren(
    make("button", {class: "close", on: () => box.close()}, "Close"),
    make("h2", {id: "detail-h", dir: "auto"}, D.systems[system]),
    make("p", {class: "soft"}, `${heading(board)} · ${board.words}`),
    make("p", {class: "links"}, entry.page ? make("a", {href: entry.page}, "Queries and answers") : null,
      make("a", {href: entry.file, download: true}, "This result as JSON")),
    make("table", {}, make("thead", {}, make("tr", {}, ...["Measure", "Value", "95 % interval", "Places", "Chance"].map(
      (name, index) => make("th", {scope: "col", class: index ? "number" : ""}, name)))), make("tbody", {}, ...rows)),
    make("h3", {}, "Protocol"), pairs(board.card),
    ...(entry.facts.length ? [make("h3", {}, "The system’s own"), pairs(entry.facts)] : []),
    ...(entry.notes.length ? [make("h3", {}, "Notes"), make("ul", {}, ...entry.notes.map(note => make("li", {}, note)))] : []));
  if (!box.open) box.showModal();
  box.scrollTop = 0;
}

function go() {
  const parts = Object.entries(state).filter(([, value]) => value !== "" && value != null);
  const hash = new URLSearchParams(parts).toString();
  if (location.hash.slice(1) === hash) show(); else location.hash = hash;
}

function show() {
  const board = D.boards.find(column => column.key === state.b);
  at("back").hidden = !board;
  at("view").replaceChildren(board && state.m in board.measures ? ranking(board) : matrix());
  const opened = D.boards.find(column => column.key === state.b2);
  if (opened && state.s in opened.rows) detail(opened, +state.s);
  else if (at("detail").open) at("detail").close();
}

function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of ["q", "c", "t", "m", "b", "b2", "s", "sort", "up"]) state[name] = given.get(name) || "";
  if (!(state.m in D.measures)) state.m = D.first;
  for (const [id, name] of [["find", "q"], ["collection", "c"], ["task", "t"], ["measure", "m"]]) {
    if (document.activeElement !== at(id)) at(id).value = state[name];
  }
  show();
}

at("collection").append(make("option", {value: ""}, "all"), ...D.collections.map((name, index) => make("option", {value: index}, name)));
at("task").append(make("option", {value: ""}, "all"), ...Object.entries(D.tasks).map(([task, words]) => make("option", {value: task}, words)));
at("measure").append(...Object.entries(D.measures).map(([measure, of]) => make("option", {value: measure}, of.name)));
at("find").addEventListener("input", () => { state.q = at("find").value; history.replaceState(null, "", `#${new URLSearchParams(Object.entries(state).filter(([, value]) => value))}`); show(); });
for (const [id, name] of [["collection", "c"], ["task", "t"], ["measure", "m"]]) {
  at(id).addEventListener("change", () => { state[name] = at(id).value; state.b = ""; go(); });
}
at("back").addEventListener("click", () => { state.b = ""; go(); });
at("detail").addEventListener("close", () => { if (state.s !== "") { state.s = state.b2 = ""; go(); } });
at("detail").addEventListener("click", event => { if (event.target === at("detail")) at("detail").close(); });
document.querySelector(".controls").addEventListener("submit", event => event.preventDefault());
window.addEventListener("hashchange", read);
read();
