// Facets, and words that were read as prices: what the page shows of products, and of pictures with keywords, people or
// places. (Fetched with the first one.)

import { get, path } from "./api.js";
import { $, chip, count, counted, el, style } from "./dom.js";
import { grouping } from "./grouping.js";
import { conditionText, limits } from "./state.js";

const read = el("div", { class: "chips" });
const changes = el("p", { class: "muted", role: "status", hidden: true });
const choices = el("div", { class: "facets", role: "group", "aria-label": "Choose", hidden: true });
$("where").after(read, changes);
$("filters").after(choices);
await style("products.css");

/** Bring both up to date with the page. */
export async function show({ of, state, column, go, unfilter }) {
  const words = state.text.trim() ? (column.answer?.read ?? []) : [];
  const label = (each) => `${each.where.map(conditionText).join(" and ")} (“${each.words}”)`;
  read.replaceChildren(...words.map((each) => chip(label(each), () => unfilter({ plain: true }), "filter")));
  const other = state.text.trim() ? (column.answer?.changes ?? []) : [];
  changes.hidden = !other.length;
  changes.textContent = other.map((each) => `${each[0].toUpperCase()}${each.slice(1)}.`).join(" ");
  const fields = of.unit === "products" ? null : grouping(of);
  choices.hidden = $("filters").hidden || fields?.length === 0;
  if (choices.hidden) return;
  const choose = ({ category, where, off }) => {
    if (category) return go({ category });
    const others = state.where.filter((each) => !where.includes(each));
    return go({ where: off ? others : [...others, ...where] });
  };
  try {
    const asked = limits(state, of);
    const { body } = column;
    // With a photo vectors rank everything; what its words say of prices is a condition.
    const where = [...(asked.where ?? []), ...(body?.image ? words.flatMap((each) => each.where) : [])];
    const search = body && !body.image ? { text: body.text, like: body.like, by: body.by, system: body.system, read_prices: body.read_prices } : {};
    await facets(choices, of, { category: asked.category, where: where.length ? JSON.stringify(where) : null, ...search }, state.where, choose, fields);
  } catch (failure) {
    choices.replaceChildren(el("p", { class: "error" }, failure.message));
  }
}

const OF = {
  all: "",
  found: (n, unit) => `Of ${counted(n, unit)} found by words:`,
  ranked: (n, unit) => `Of all ${counted(n, unit)} that are ranked:`,
};

/** Fill `place` with the facets of a library: how many items have each brand, category, price. `choose({category})` or
 * `choose({where})` when one is pressed, with `off` to take it away. */
async function facets(place, library, limits, chosen, choose, fields) {
  const given = new URLSearchParams(Object.entries(limits).filter(([, value]) => value !== null && value !== undefined));
  for (const field of fields ?? []) given.append("field", field);
  const question = `${library.name} ${library.generation} ${given}`;
  if (place.dataset.question === question) return;
  place.dataset.question = question;
  place.setAttribute("aria-busy", "true");
  const answer = await get(`${path(library.name, "facets")}?${given}`);
  if (place.dataset.question !== question) return;
  place.removeAttribute("aria-busy");
  const focused = document.activeElement?.dataset.facet;
  const value = (each) => {
    const where = each.where.map(conditionText);
    const on = each.category ? false : where.length > 0 && where.every((text) => chosen.includes(text));
    return el(
      "li",
      null,
      el("button", { type: "button", class: "facet", "aria-pressed": each.category ? null : String(on), "data-facet": each.category ?? where.join(" "), onclick: () => choose(each.category ? { category: each.category } : { where, off: on }) },
        el("span", null, each.label), el("span", { class: "muted" }, el("span", { class: "hidden" }, ", "), count(each.count))),
    );
  };
  place.replaceChildren(
    ...(OF[answer.of] && answer.total ? [el("p", { class: "of" }, OF[answer.of](answer.total, library.unit))] : []),
    ...answer.facets.map(({ field, values, more, left_out }) =>
      el("section", { "aria-label": field }, el("h2", null, field), left_out.length ? el("p", { class: "muted" }, `without ${left_out.map(conditionText).join(" and ")}`) : null, el("ul", null, values.map(value)), more ? el("p", { class: "muted" }, `and ${count(more)} more`) : null),
    ),
  );
  if (focused) [...place.querySelectorAll("button")].find((each) => each.dataset.facet === focused)?.focus();
}
