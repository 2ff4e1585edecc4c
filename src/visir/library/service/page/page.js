// The page: its state (see state.js), and what each part shows of it. Every change goes through `go` and `render`.

import { librariesThere, path, picture } from "./api.js";
import { Column } from "./column.js";
import { $, chip, el, option, remember, showNote, style } from "./dom.js";
import { listen } from "./drop.js";
import { limits, query, read, ways, write } from "./state.js";

const LOOK = 20_000; // milliseconds between two looks whether the service still follows the library
const PAUSE = 250; // milliseconds without a key before a search: fewer would search for halves of words
const SIGNS = { ">=": "≥", "<=": "≤", "!=": "≠" };
const DESCRIBE = matchMedia("(hover: hover)").matches ? "Describe a picture, or drop one" : "Describe a picture";
const NAMES = "File name or folder";
const MEANING = {
  dense: "Compares what pictures and words mean, as vectors",
  "late interaction": "Compares each word with each part of a picture",
  sparse: "Compares weighted words, which can be read",
  hybrid: "Both, ranked together",
  words: "Looks for the words in titles, brands, keywords, …",
  both: "Words and vectors, ranked together",
};

let libraries = [];
let state = read(location.search);
const photos = new Map();
const text = $("text");

// == state

const library = (name) => libraries.find((each) => each.name === name) ?? libraries[0];
const way = (of, name) => (ways(of).includes(name) ? name : ways(of)[0]);
const named = (of, each) => of.labels[each] ?? each;
const title = (label) => label[0].toUpperCase() + label.slice(1);
const sides = () => (state.other ? [state, state.other] : [state]);

function go(changes, { replace = false } = {}) {
  const opening = "open" in changes && changes.open;
  const depth = opening ? (history.state?.depth ?? 0) + (replace ? 0 : 1) : 0;
  const before = write(state);
  const photo = state.photo;
  state = { ...state, ...(opening ? {} : { lostPhoto: false }), ...changes };
  if ("text" in changes && text.value !== state.text) text.value = state.text;
  if (write(state) !== before || state.photo !== photo) {
    history[replace ? "replaceState" : "pushState"]({ depth, photo: state.photo?.key }, "", write(state));
  }
  if (!replace && !opening) scrollTo(0, 0);
  render();
}

addEventListener("popstate", (event) => {
  state = read(location.search);
  const photo = photos.get(event.state?.photo);
  if (photo) Object.assign(state, { photo, lostPhoto: false });
  text.value = state.text;
  typed = false;
  render();
});

const address = (side) => (item) => write({ ...state, open: item, side });

// == results

const columns = ["Results", "Results of the second system"].map((label, side) => {
  const column = new Column({
    label,
    address: address(side),
    open: (item) => go({ open: item, side }),
    shown: () => {
      compare();
      shop(library(state.library));
    },
    free: () => unfilter({ category: null, where: [], plain: true }),
  });
  const point = (event) => state.other && columns.forEach((each) => each.point(event.target.closest?.("[data-item]")?.dataset.item));
  for (const kind of ["pointerover", "pointerleave", "focusin"]) column.list.addEventListener(kind, point);
  return column;
});
const overlap = el("p", { class: "overlap", role: "status", hidden: true });
const both = el("div", { class: "columns" }, columns[0].element);
$("results").append(overlap, both);

/** Say and show what both columns have found. */
function compare() {
  const [left, right] = columns;
  if (!state.other) return;
  const ranks = ({ hits }) => new Map(hits.map((hit, n) => [hit.id, hit.rank ?? n + 1]));
  left.mark(ranks(right));
  right.mark(ranks(left));
  const first = Math.min(left.hits.length, right.hits.length);
  const found = new Set(right.hits.slice(0, first).map((hit) => hit.id));
  const shared = left.hits.slice(0, first).filter((hit) => found.has(hit.id)).length;
  overlap.textContent = first ? `${shared} of the first ${first} are in both` : "";
}

/** The choice of library and system for one side; made once per library, so that it keeps the focus. */
class Choice {
  constructor(side) {
    this.side = side;
    this.element = el("div", { class: "choice" });
  }

  choose(changes) {
    go(this.side ? { other: { ...state.other, ...changes } } : changes);
  }

  show(of, chosen) {
    if (this.of !== of) {
      this.of = of;
      const name = `system-${this.side}`;
      const several = el("select", { "aria-label": "Library" }, libraries.map((each) => option(each.name, each.name, each === of)));
      several.addEventListener("change", () => this.choose({ library: several.value, ...(this.side ? {} : { category: null }) }));
      const one = (each) => [
        el("input", { type: "radio", name, id: `${name}-${each}`, value: each, onchange: () => this.choose({ system: each }) }),
        el("label", { for: `${name}-${each}`, title: MEANING[named(of, each)] }, title(named(of, each))),
      ];
      const [only, ...others] = ways(of);
      const switches = others.length ? el("fieldset", { class: "segments" }, el("legend", { class: "hidden" }, "Search by"), ways(of).map(one)) : el("span", { class: "muted", title: MEANING[named(of, only)] }, named(of, only));
      this.element.replaceChildren(...(libraries.length > 1 ? [several] : []), switches);
    }
    for (const radio of this.element.querySelectorAll("input")) radio.checked = radio.value === chosen;
  }
}
const choices = [new Choice(0), new Choice(1)];

async function results() {
  const two = Boolean(state.other);
  both.classList.toggle("two", two);
  overlap.hidden = !two;
  if (two) both.append(columns[1].element);
  else {
    columns[1].element.remove();
    columns[0].mark(null);
    columns[0].point(null);
  }
  columns[0].head.hidden = !two;
  columns[1].head.hidden = !two;
  (two ? columns[0].head : $("systems")).append(choices[0].element);
  columns[1].head.append(choices[1].element);
  $("compare").setAttribute("aria-pressed", String(two));
  await Promise.all(
    sides().map((side, n) => {
      const of = library(side.library ?? state.library); // the second follows the first until it is told otherwise
      const chosen = way(of, side.system);
      choices[n].show(of, chosen);
      columns[n].renewAddresses();
      return columns[n].show(of, query(state, of, chosen), limits(state, of));
    }),
  );
  compare();
}

let details = null;
async function dialog() {
  const [{ Details }] = await Promise.all([import("./details.js"), style("details.css")]);
  details ??= new Details($("details"), {
    go,
    address: (item) => write({ ...state, open: item }),
    close: () => (history.state?.depth ? history.go(-history.state.depth) : go({ open: null }, { replace: true })),
  });
}

async function render() {
  document.title = state.text.trim() ? `${state.text.trim()} · visir` : "visir";
  $("clear").hidden = !(state.text || state.like || state.photo || state.category || state.where.length);
  if (!libraries.length) return;
  const of = library(state.library);
  tools(of);
  const asked = results();
  const wanted = state.open;
  const side = state.other ? state.side : 0;
  if (!wanted) {
    const last = details?.item;
    details?.hide();
    if (last) columns[side].focus(last);
    return;
  }
  await Promise.all([columns[side].hits.length || asked, details || dialog()]);
  if (state.open === wanted) details.show(wanted, columns[side], columns[side].library);
}

// == what stands above the results

function tools(of) {
  const parts = [];
  if (state.photo) parts.push(chip(state.photo.name, () => drop({ photo: null }), "photo", el("img", { src: state.photo.preview, alt: "" })));
  if (state.like) {
    const image = picture(el("img", { alt: "" }), `${path(of.name, "items", state.like)}/thumbnail`);
    parts.push(chip("like this", () => drop({ like: null }), "picture", image));
  }
  $("chips").replaceChildren(...parts);
  text.placeholder = of.texts === false ? NAMES : parts.length ? "Add words" : of.unit === "products" ? "Describe a product" : DESCRIBE;

  const mixed = parts.length > 0 && state.text.trim() && of.texts !== false;
  const slider = $("text-weight").querySelector("input");
  $("text-weight").hidden = !mixed;
  if (document.activeElement !== slider) slider.value = state.textWeight;
  showWeight(slider.value);

  const where = state.where.map((condition, n) =>
    chip(condition.replace(/ (>=|<=|!=) /, (_, sign) => ` ${SIGNS[sign]} `), () => unfilter({ where: state.where.filter((_, each) => each !== n) }), "filter"),
  );
  if (state.category) where.unshift(chip(`in ${state.category}`, () => unfilter({ category: null }), "category"));
  $("where").replaceChildren(...where);
  $("filters-button").hidden = !of.fields?.length;
  $("compare").hidden = libraries.length < 2 && ways(of).length < 2 && !state.other;
  $("choose").hidden = !of.systems.length;
  const folders = of.folders === false ? "Categories" : "Folders";
  $("categories-name").textContent = folders;
  $("categories").setAttribute("aria-label", folders);

  $("categories-button").hidden = !of.categories;
  const open = of.categories && document.documentElement.dataset.categories === "open";
  $("categories").hidden = !open;
  $("categories-button").setAttribute("aria-expanded", String(Boolean(open)));
  if (open) tree(of);

  shop(of);
  notes(of);
}

/** Facets, and prices that were read in the words. */
const shop = async (of) => (of?.unit === "products" || of?.ways?.includes("words")) && (await import("./products.js")).show({ of, state, column: columns[0], go, unfilter });

function notes(of) {
  const note = state.lostPhoto
    ? "This link was made with a photo, and a link cannot carry one. Drop or choose the photo again."
    : of.state && of.state.status !== "current"
      ? `What you see may be out of date: ${of.state.fault ?? "the library on disk is another one"}.`
    : of.texts === false
      ? "This library takes no words: what you type is looked for in file names. To search by content, drop a photo, or use “More like this”."
    : state.photo
      ? "The photo is sent for the search only; a link to this page does not carry it."
      : "";
  showNote(note);
}

async function tree(of) {
  try {
    const { categories } = await import("./categories.js");
    await categories($("categories"), of, state.category, (category) => go({ category }));
  } catch (failure) {
    $("categories").replaceChildren(el("p", { class: "error" }, failure.message));
  }
}

function unfilter(changes) {
  go(changes);
  ($("filters-button").hidden ? text : $("filters-button")).focus();
}

function drop(changes) {
  go(changes);
  text.focus();
}

function showWeight(of) {
  $("weight-photo").textContent = `photo ${100 - of} %`;
  $("weight-text").textContent = `text ${of} %`;
  $("text-weight").querySelector("input").setAttribute("aria-valuetext", `text ${of} %, photo ${100 - of} %`);
}

// == asking

let typed = false;
let timer = 0;

function search() {
  clearTimeout(timer);
  if (text.value === state.text) return;
  go({ text: text.value, plain: false }, { replace: typed });
  typed = true;
}

text.addEventListener("input", (event) => {
  clearTimeout(timer);
  if (!event.isComposing) timer = setTimeout(search, PAUSE);
});
text.addEventListener("compositionend", () => (timer = setTimeout(search, PAUSE)));
text.addEventListener("blur", () => (typed = false));
$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
  typed = false;
});
text.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "ArrowDown") {
    event.preventDefault();
    columns[0].focus();
  } else if (event.key === "Escape" && text.value) {
    event.preventDefault();
    text.value = "";
    search();
  } else if (event.key === "Backspace" && !text.value && (state.photo || state.like)) drop({ photo: null, like: null });
});

$("text-weight").addEventListener("input", (event) => {
  showWeight(event.target.value);
  clearTimeout(timer);
  timer = setTimeout(() => go({ textWeight: Number(event.target.value) }, { replace: true }), PAUSE);
});

$("clear").addEventListener("click", () => {
  text.value = "";
  clearTimeout(timer);
  drop({ text: "", like: null, photo: null, category: null, where: [], plain: false });
});

$("home").addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  $("clear").click();
});

$("choose").addEventListener("click", () => $("file").click());
listen(
  async (file) => {
    try {
      const { prepare } = await import("./photo.js");
      const photo = await prepare(file);
      photos.set(photo.key, photo);
      drop({ photo, like: null, open: null });
    } catch (failure) {
      showNote(`${failure.message} ${failure.hint}`, true);
    }
  },
  $("file"),
  $("drop"),
);

function panel(open) {
  $("filters").hidden = !open;
  $("filters-button").setAttribute("aria-expanded", String(open));
  shop(library(state.library));
}

$("filters-button").addEventListener("click", async () => {
  if (!$("filters").hidden) return panel(false);
  const { form } = await import("./filters.js");
  const add = (condition) => state.where.includes(condition) || go({ where: [...state.where, condition] });
  form($("filters"), library(state.library).fields, add);
  panel(true);
  $("filters").querySelector("select").focus();
});
function leaveFilters() {
  panel(false);
  $("filters-button").focus();
}
$("filters").addEventListener("leave", leaveFilters);
$("filters").addEventListener("keydown", (event) => event.key === "Escape" && leaveFilters());

$("categories-button").addEventListener("click", () => {
  const root = document.documentElement.dataset;
  if (root.categories) delete root.categories;
  else root.categories = "open";
  remember("visir-categories", root.categories);
  render();
});

$("compare").addEventListener("click", () => {
  if (state.other) return go({ other: null, side: 0 });
  const of = library(state.library);
  const mine = way(of, state.system);
  const second = ways(of).find((each) => each !== mine) ?? ways(of)[0];
  return go({ other: { library: ways(of).length > 1 ? null : libraries.find((each) => each !== of)?.name, system: second } });
});

// == colours and keys

const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
function nameTheme() {
  const label = theme() === "dark" ? "Light colours" : "Dark colours";
  $("theme").setAttribute("aria-label", label);
  $("theme").title = label;
}
$("theme").addEventListener("click", () => {
  const next = theme() === "dark" ? "light" : "dark";
  const root = document.documentElement.dataset;
  // Back to what the system says: follow it again.
  if (next === (dark.matches ? "dark" : "light")) delete root.theme;
  else root.theme = next;
  remember("visir-theme", root.theme);
  nameTheme();
});
dark.addEventListener("change", nameTheme);
nameTheme();

$("help").addEventListener("click", () => $("keys").showModal());
$("keys").addEventListener("click", (event) => event.target === $("keys") && $("keys").close());
addEventListener("keydown", (event) => {
  if (event.target.matches("input:not([type=radio], [type=range]), select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "/") {
    event.preventDefault();
    text.focus();
    text.select();
  } else if (event.key === "?") $("keys").showModal();
});

// == start

async function start() {
  columns[0].busy(true);
  columns[0].skeletons();
  try {
    libraries = await librariesThere();
    if (!Array.isArray(libraries)) ({ libraries } = libraries);
    if (!libraries.length) throw Object.assign(new Error("This service has no library."), { hint: "Make one with visir library make, and give its folder to visir library serve." });
  } catch (failure) {
    columns[0].busy(false);
    columns[0].fail(failure, start);
    return;
  }
  const unknown = sides().map((side) => side.library).find((name) => name && !libraries.some((each) => each.name === name));
  if (unknown) state.library = null;
  await render();
  if (unknown) showNote(`There is no library ${unknown} here; this is ${library(null).name}.`, true);
}

// A service that does not follow its library any more, or has gone, is told of without being asked.
setInterval(async () => {
  if (document.hidden || !libraries.length || document.querySelector("dialog[open]")) return;
  try {
    const now = await librariesThere();
    for (const each of libraries) each.state = now.find(({ name }) => name === each.name)?.state ?? each.state;
    notes(library(state.library));
  } catch (failure) {
    showNote(`${failure.message} ${failure.hint ?? ""}`, true);
  }
}, LOOK);

text.value = state.text;
history.replaceState({ depth: 0, photo: history.state?.photo }, "");
setTimeout(start); // in a task of its own: the first paint need not wait for it
