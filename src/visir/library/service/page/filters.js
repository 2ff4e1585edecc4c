// The form for a filter on metadata, made from the fields that the library names. (Fetched when it is first opened.)

import { get, path } from "./api.js";
import { button, count, el, option } from "./dom.js";
import { conditionText } from "./state.js";

const WORDS = {
  number: { ">=": "at least", "<=": "at most", "=": "is", "!=": "is not" },
  date: { ">=": "from", "<=": "until" },
  text: { "=": "is", "!=": "is not", contains: "contains" },
};

/** Build the form anew for `fields`; `add(text)` gets a condition as the command line writes it. */
export function form(place, fields, add) {
  const field = el("select", { "aria-label": "Field" }, fields.map(({ name }) => option(name, name)));
  const op = el("select", { "aria-label": "Comparison" });
  const value = el("span");
  const refresh = () => {
    const chosen = fields.find(({ name }) => name === field.value);
    op.replaceChildren(...Object.entries(WORDS[chosen.type] ?? WORDS.text).map(([sign, words]) => option(sign, words)));
    const listed = chosen.values?.length;
    const types = { number: "number", date: "date" };
    const input = el("input", { type: types[chosen.type] ?? "text", step: "any", required: true, maxlength: "200", placeholder: "value", "aria-label": "Value", list: listed ? "values" : null });
    value.replaceChildren(input, ...(listed ? [el("datalist", { id: "values" }, chosen.values.map((each) => option(each, String(each))))] : []));
  };
  field.addEventListener("change", refresh);
  refresh();
  place.replaceChildren(field, op, value, el("button", { class: "tool primary" }, "Add"), button("Close", () => place.dispatchEvent(new Event("leave"))));
  place.onsubmit = (event) => {
    event.preventDefault();
    add(conditionText({ field: field.value, op: op.value, value: value.querySelector("input").value }));
  };
}

/** Fill `place` with the facets of a library: how many items have each brand, category, price. `choose({category})` or
 * `choose({where})` when one is pressed, with `off` to take it away. */
export async function facets(place, library, limits, chosen, choose) {
  const given = new URLSearchParams();
  if (limits.category) given.set("category", limits.category);
  if (limits.where) given.set("where", JSON.stringify(limits.where));
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
    ...answer.facets.map(({ field, values, more }) =>
      el("section", { "aria-label": field }, el("h2", null, field), el("ul", null, values.map(value)), more ? el("p", { class: "muted" }, `and ${count(more)} more`) : null),
    ),
  );
  if (focused) [...place.querySelectorAll("button")].find((each) => each.dataset.facet === focused)?.focus();
}
